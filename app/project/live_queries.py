"""Live queries: what pages ask the database, answered once for everybody who asks the same, and asked again when it may differ.

A live query names a database function, its arguments and what makes its answer old. Its answer is kept only while a
screen shows it, so the dashboard keeps what is on screens and not organisations. Rows that change are put into the answers
that list them at once; their places and the counts follow with the next answer.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from app.project.models import Row

Made = TypeVar("Made")

PAUSE_SECONDS = 0.1
# A slow query runs less often: all feeds of an organisation together ask it for a quarter of the time at most.
REST = 3.0
# Columns that every heartbeat changes: such a change waits behind other ones.
PULSE = frozenset({"pulses", "last_seen_at", "used", "slots"})
HEARTBEAT = "heartbeat:"


@dataclass(frozen=True)
class LiveQuery:
    """One question; `table` names the live rows that its answer lists, if it does."""

    function: str
    arguments: str
    topics: frozenset[str]
    table: str = ""
    pause_seconds: float = PAUSE_SECONDS

    @cached_property
    def key(self) -> str:
        """The topic that is notified when the answer has changed."""
        return f"query:{self.function}:{self.arguments}"

    @cached_property
    def heartbeat(self) -> str:
        """The topic that is notified when only pulses have changed."""
        return HEARTBEAT + self.key

    @property
    def notices(self) -> tuple[str, str]:
        """The topics that are notified when the answer is another."""
        return self.key, self.heartbeat

    def named(self) -> dict[str, Any]:
        arguments: dict[str, Any] = json.loads(self.arguments)
        return arguments


def live_query(
    function: str, topics: Iterable[str], table: str = "", pause_seconds: float = PAUSE_SECONDS, **arguments: Any
) -> LiveQuery:
    """Ask a function with these arguments, without their p_; the organisation is added by the caller."""
    named = {f"p_{name}": value for name, value in arguments.items()}
    return LiveQuery(function, json.dumps(named, sort_keys=True), frozenset(topics), table, pause_seconds)


@dataclass
class Held:
    query: LiveQuery
    answer: Any = None
    is_answered: bool = False
    is_old: bool = False
    asked_at: float = float("-inf")
    ended_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[None] | None = None
    _made: dict[str, Any] = field(default_factory=dict)
    _made_before: dict[str, Any] = field(default_factory=dict)
    _worked_out: dict[tuple[Any, ...], tuple[tuple[Any, ...], Any]] = field(default_factory=dict)

    def set(self, answer: Any) -> None:
        """Take another answer; derived values are computed again."""
        self.answer, self.is_answered = answer, True
        self._made_before |= self._made
        self._made, self._worked_out = {}, {}

    def rows(self) -> list[Row]:
        """The rows that the answer lists."""
        return list(self.answer.get("rows") or []) if isinstance(self.answer, Mapping) else []

    def places(self) -> dict[str, int]:
        """Return the position of each row in the answer."""
        return self.make("places", lambda held: {str(row["id"]): at for at, row in enumerate(held.rows())})

    def make(self, name: str, build: "Callable[[Held], Made]") -> Made:
        """Work something out of the answer once, however many people are shown it; what is the same stays the same object."""
        if name not in self._made:
            fresh, before = build(self), self._made_before.get(name)
            self._made[name] = before if before == fresh else fresh
        made: Made = self._made[name]
        return made

    def each(self, name: str, build: "Callable[[Row], Made]") -> list[Made]:
        """Work something out of each row that the answer lists, once."""
        return self.make(name, lambda held: [build(row) for row in held.rows()])

    def once(self, build: "Callable[..., Made]", *given: Any) -> Made:
        """Work something out of the very same objects once while the answer stands: most tabs have been shown the same."""
        key = (build, *map(id, given))
        if key not in self._worked_out:
            # With what was given, so that no other object gets its id.
            self._worked_out[key] = given, build(*given)
        made: Made = self._worked_out[key][1]
        return made

    def pause(self, now: float, feeds: int = 1) -> float:
        """Return the seconds to wait before the query runs again, where so many feeds ask the same."""
        if not self.is_answered:
            return 0.0
        rest = REST * max(0.0, self.ended_at - self.asked_at) * feeds
        return max(0.0, self.ended_at + max(self.query.pause_seconds, rest) - now)


class LiveQueries:
    """The answers that are on screens, and which of them may be old."""

    def __init__(self, notify: Callable[[str], None], newest: Callable[[str, Row], Row]) -> None:
        """`notify` is called for a changed answer; `newest` puts what was heard since over a row of an answer."""
        self._notify = notify
        self._newest = newest
        self._held: dict[str, Held] = {}
        self.woken = asyncio.Event()

    def hold(self, query: LiveQuery) -> Held:
        """Hold a query's answer from now on; it has none yet if nobody asked the same."""
        return self._held.setdefault(query.key, Held(query))

    def held(self, query: LiveQuery) -> Held | None:
        """A query with its answer; None if nobody has it."""
        found = self._held.get(query.key)
        return found if found is not None and found.is_answered else None

    def all(self) -> list[Held]:
        return list(self._held.values())

    def old(self) -> list[Held]:
        """The queries that have to run again and are not running yet."""
        return [held for held in self._held.values() if held.is_old and held.task is None]

    def keep(self, keys: Iterable[str]) -> None:
        """Forget the queries that no screen shows any more; one that runs for the first time is wanted."""
        wanted = set(keys)
        for key in [key for key, held in self._held.items() if key not in wanted and held.is_answered]:
            held = self._held.pop(key)
            held.is_old = False

    def forget(self, query: LiveQuery) -> None:
        """Forget a query that was refused before it had an answer."""
        self._held.pop(query.key, None)

    def note_change(self, topic: str, row: Row | None = None) -> None:
        """Something changed: put the row into the answers that list it, and have all that depend on it asked again."""
        for held in self._held.values():
            if topic not in held.query.topics:
                continue
            held.is_old = True
            self.woken.set()
            if row is not None and topic == held.query.table:
                self._patch(held, row)

    def renew(self, query: LiveQuery) -> None:
        """Run a query again, for everybody who sees its answer."""
        self.hold(query).is_old = True
        self.woken.set()

    def _patch(self, held: Held, row: Row) -> None:
        at = held.places().get(str(row["id"])) if held.is_answered else None
        if at is None:
            return
        rows = held.rows()
        rows[at] = {**rows[at], **row}
        held.set({**held.answer, "rows": rows})
        self._notify(held.query.key)

    def take(self, held: Held, answer: Any) -> None:
        """Accept an answer, and notify if it differs; changes that arrived meanwhile stay newer than it."""
        if held.query.table and isinstance(answer, Mapping):
            rows = [self._newest(held.query.table, row) for row in answer.get("rows") or []]
            answer = {**answer, "rows": rows}
        before, was_answered = held.answer, held.is_answered
        if was_answered and before == answer:
            return
        held.set(answer)
        if was_answered:
            self._notify(held.query.heartbeat if _still(before) == _still(answer) else held.query.key)


def _still(answer: Any) -> Any:
    """An answer without what every heartbeat changes."""
    if not isinstance(answer, Mapping):
        return answer
    rows = [{key: value for key, value in row.items() if key not in PULSE} for row in answer.get("rows") or []]
    return {**answer, "rows": rows}
