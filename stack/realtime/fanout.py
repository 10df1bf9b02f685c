"""From a batch of row changes to the frames that subscribers get."""

from collections import defaultdict

import orjson
from psycopg import AsyncConnection

from stack.auth.tokens import ApiCaller
from stack.realtime.catalog import ReplicationCatalog, RoleView
from stack.realtime.frames import encode
from stack.realtime.rls import Key, Seen, VisibilityGate, visible_rows
from stack.realtime.rooms import Member
from stack.realtime.shape import Change, render
from stack.realtime.subscriptions import Subscription, Subscriptions

Candidates = list[tuple[Change, list[Subscription]]]


class ChangeFanout:
    """Matches changes with subscriptions, asks PostgreSQL where it must, and sends each frame encoded once."""

    def __init__(
        self, connection: AsyncConnection, gate: VisibilityGate, catalog: ReplicationCatalog,
        subscriptions: Subscriptions, max_record_bytes: int,
    ) -> None:  # fmt: skip
        self._connection = connection
        self._gate = gate
        self._catalog = catalog
        self._subscriptions = subscriptions
        self._max_record_bytes = max_record_bytes

    async def deliver(self, changes: list[Change]) -> None:
        """Send a batch in its order to anyone who may see it."""
        candidates = [
            (change, [item for item in self._subscriptions.interested(*_address(change)) if item.wants(change)])
            for change in changes
        ]
        views = await self._views(candidates)
        xids = {change.begin.xid for change, subscriptions in candidates if subscriptions}
        seen = await self._seen(candidates, views)
        if not self._gate.covers(xids):
            # Not visible to others yet: a query on its arrival would miss it, and so would the policies.
            await self._gate.wait_for(xids)
            seen = await self._seen(candidates, views)
        for change, subscriptions in candidates:
            allowed = [item for item in subscriptions if self._may_see(change, item, views, seen)]
            self._send(change, allowed, views)

    async def _views(self, candidates: Candidates) -> dict[tuple[int, str], RoleView]:
        views = {}
        for change, subscriptions in candidates:
            for role in {item.identity.role for item in subscriptions}:
                views[change.table.oid, role] = await self._catalog.view(change.table, role)
        return views

    async def _seen(self, candidates: Candidates, views: dict[tuple[int, str], RoleView]) -> dict[int, Seen]:
        """Ask once per table about all changed rows and all viewers that its policies concern."""
        keys: dict[int, dict[Key, None]] = defaultdict(dict)
        viewers: dict[int, dict[ApiCaller, None]] = defaultdict(dict)
        tables = {}
        for change, subscriptions in candidates:
            if change.key is None or not _is_guarded(change):
                continue
            oid = change.table.oid
            for item in subscriptions:
                view = views[oid, item.identity.role]
                if not view.bypasses_rls and view.columns.issuperset(change.table.keys):
                    tables[oid] = change.table
                    keys[oid][change.key] = None
                    viewers[oid][item.identity] = None
        seen: dict[int, Seen] = {}
        for oid, table in tables.items():
            answer = await visible_rows(self._connection, table, list(keys[oid]), list(viewers[oid]))
            if not seen:  # snapshots only advance: what the first answer covers, the others do
                self._gate.learn(answer.snapshot)
            seen[oid] = answer.seen
        return seen

    def _may_see(
        self, change: Change, item: Subscription, views: dict[tuple[int, str], RoleView], seen: dict[int, Seen]
    ) -> bool:
        view = views[change.table.oid, item.identity.role]
        if not view.columns or not view.columns.issuperset(change.table.keys):
            return False  # hosted sends an empty "401", which tells when and how often others' rows change
        if not _is_guarded(change) or view.bypasses_rls:
            return True
        if change.key is None:
            return True  # told of the error alone
        return (item.identity, change.key) in seen.get(change.table.oid, ())

    def _send(self, change: Change, allowed: list[Subscription], views: dict[tuple[int, str], RoleView]) -> None:
        """One message for each member carries all of its matching ids."""
        groups: dict[Member, list[Subscription]] = defaultdict(list)
        for item in allowed:
            groups[item.member].append(item)
        data: dict[str, bytes] = {}
        frames: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        for member, items in groups.items():
            role = items[0].identity.role  # the member may have got a newer token since it subscribed
            if role not in data:
                data[role] = render(change, views[change.table.oid, role], self._max_record_bytes)
            ids = tuple(dict.fromkeys(item.id for item in items))
            key = (member.topic, ids, data[role])
            if key not in frames:
                payload = {"ids": list(ids), "data": orjson.Fragment(data[role])}
                frames[key] = encode(member.topic, "postgres_changes", payload)
            member.deliver(frames[key])


def _address(change: Change) -> tuple[str, str]:
    return change.table.schema, change.table.name


def _is_guarded(change: Change) -> bool:
    """Row-level security can be checked for a row that exists."""
    return change.table.has_rls and change.type != "DELETE"
