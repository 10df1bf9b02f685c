"""One change to many runners: which are selected, what it would do in numbers, and what became of it."""

from collections import Counter
from typing import Any, TypedDict

import reflex as rx

from app.frame.session import AppState, puts, say_error, takes
from app.live.patches import shown
from app.project.errors import AppError
from app.runners.state.runners import RunnersState
from app.ui.view import count

KINDS = ("drain", "disable", "update", "label")
# The most runners that the database changes at a time, and that a list returns at a time.
AT_ONCE = 200
STATUS_ORDER = ("ONLINE", "DRAINING", "OFFLINE")


class Refusal(TypedDict):
    name: str
    why: str


class BulkState(AppState, rx.State):
    selected: list[str] = []
    is_all: bool = False
    is_page: bool = False
    words: str = ""
    kind: str = ""
    reason: str = ""
    label: str = ""
    is_busy: bool = False
    refused: list[Refusal] = []
    _seen: dict[str, tuple[str, int]] = {}

    set_reason = takes("reason")
    close = puts(kind="", refused=[], is_busy=False)

    async def _page(self) -> list[tuple[str, str, int]]:
        """The runners that are on the page: id, status and running jobs; shared ones are nobody's to change."""
        page = await self.get_state(RunnersState)
        rows = shown(page.get_value("rows"), page.get_value("patches")).values()
        pulses = page.get_value("pulses")
        return [
            (row["id"], row["status"], int((pulses.get(row["id"]) or {}).get("used") or 0))
            for row in rows
            if not row["is_shared"]
        ]

    async def _choose(self, chosen: list[str]) -> None:
        page = await self._page()
        self._seen = {**self._seen, **{key: (status, used) for key, status, used in page}}
        self.selected, self.is_all = chosen, False
        self.is_page = bool(page) and {key for key, _, _ in page} <= set(chosen)
        self.words = say_selection([self._seen.get(key, ("", 0)) for key in chosen])

    @rx.event
    async def select(self, worker_id: str, is_on: bool) -> None:
        known = {key for key, _, _ in await self._page()}
        if worker_id not in known:
            return
        others = [key for key in self.selected if key != worker_id]
        await self._choose([*others, worker_id] if is_on else others)

    @rx.event
    async def select_page(self, is_on: bool) -> None:
        here = [key for key, _, _ in await self._page()]
        others = [key for key in self.selected if key not in here]
        await self._choose([*others, *here] if is_on else others)

    @rx.event
    async def select_all(self) -> None:
        page = await self.get_state(RunnersState)
        self.is_all, self.is_page, self.words = True, True, f"all {page.match_count:,} that the filter shows"

    @rx.event
    def clear(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.selected, self.is_all, self.is_page, self.words, self._seen = [], False, False, "", {}
        self.kind = self.reason = self.label = ""
        self.is_busy, self.refused = False, []

    @rx.event
    def ask(self, kind: str) -> None:
        if kind in KINDS and (self.selected or self.is_all):
            self.kind, self.reason, self.label, self.refused = kind, "", "", []

    @rx.event
    def set_label(self, text: str) -> None:
        self.label = text[:128].strip()

    @rx.event
    async def confirm(self) -> Any:
        if self.kind not in KINDS or (self.kind == "label" and not self.label):
            return
        self.is_busy = True
        yield
        try:
            done, refused = await self._change(await self._chosen())
        except AppError as error:
            self.is_busy = False
            yield say_error(error)
            return
        self.is_busy, self.refused = False, refused[:50]
        if not refused:
            self._clear()
        yield rx.toast.success(f"{count(done, 'runner')} changed") if done else rx.noop()

    async def _chosen(self) -> list[str]:
        if not self.is_all:
            return list(self.selected)
        page, found = await self.get_state(RunnersState), list[str]()
        while True:
            arguments = {f"p_{name}": value for name, value in page._chosen.arguments().items()}
            some = {"p_org": await self._org_id(), "p_limit": AT_ONCE, "p_offset": len(found), **arguments}
            rows = (await self._rpc("list_runners", some))["rows"]
            found += [str(row["id"]) for row in rows]
            if len(rows) < AT_ONCE:
                return found

    async def _change(self, chosen: list[str]) -> tuple[int, list[Refusal]]:
        options = {"drain": {"reason": self.reason or "Drained by hand"}, "label": {"labels": [self.label]}}
        done, refused = 0, list[Refusal]()
        for at in range(0, len(chosen), AT_ONCE):
            answer = await self._rpc(
                "change_runners",
                {
                    "p_org": await self._org_id(),
                    "p_workers": chosen[at : at + AT_ONCE],
                    "p_change": self.kind,
                    "p_options": options.get(self.kind, {}),
                },
            )
            done += int(answer["done"])
            refused += [{"name": str(row["name"]), "why": str(row["why"])} for row in answer["refused"]]
        return done, refused


def say_selection(selected: list[tuple[str, int]]) -> str:
    """Describe the selection in numbers: '10 online, 1 draining, 1 offline · 10 jobs running'."""
    by_status = Counter(status for status, _ in selected)
    parts = [f"{by_status[status]:,} {status.lower()}" for status in STATUS_ORDER if by_status[status]]
    used = sum(used for _, used in selected)
    return " · ".join(part for part in (", ".join(parts), f"{count(used, 'job')} running" if used else "") if part)
