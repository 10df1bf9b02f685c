"""First steps of a fresh organisation: each is ticked by what happened, never by a click."""

from collections.abc import Mapping
from typing import Any, TypedDict

import reflex as rx
import structlog

from app.project.errors import AppError, SignedOut
from app.project.models import Filter, Query
from app.shared.icons import icon
from app.shared.session import AppState, SessionState

Row = Mapping[str, Any]

CHECK_EVERY_MS = 4000
HOME = "/dashboard/runners"

log = structlog.get_logger(__name__)


class Step(TypedDict):
    """One step: what to do, or what was done."""

    title: str
    text: str
    href: str
    act: str
    state: str


class FirstStepsState(AppState, rx.State):
    """Which steps are done; looked at again while one is left and the page is open."""

    hidden_for: str = rx.LocalStorage("", name="runyard-first-steps-hidden")
    steps: list[Step] = []
    done: int = 0
    is_shown: bool = False

    async def _newest(self, table: str, columns: str, *filters: Filter) -> Row:
        mine = Filter("org_id", "eq", await self._org_id())
        rows = (await self._select(table, Query(columns=columns, filters=(mine, *filters), limit=1))).rows
        return rows[0] if rows else {}

    async def _read(self) -> None:
        kept, alive = Filter("removed_at", "is", "null"), Filter("deleted_at", "is", "null")
        runner = await self._newest("workers", "name", kept, Filter("never_contacted", "is", "false"))
        module = await self._newest("modules", "path", alive)
        plan = await self._newest(
            "provision_jobs", "id", Filter("type", "eq", "PLAN"), Filter("status", "eq", "SUCCEEDED")
        )
        me = (await self._who()).user_id
        mate = await self._newest("memberships", "user_id", Filter("user_id", "neq", me))
        self._assign("steps", steps(runner, module, plan, mate))
        self._assign("done", sum(step["state"] == "ok" for step in self.steps))

    @rx.event
    async def load(self) -> rx.event.EventSpec | None:
        """Check what is done when the page opens."""
        self.steps, self.is_shown = [], False
        return await self._check()

    @rx.event
    async def check_again(self) -> rx.event.EventSpec | None:
        """Check once more, unless nobody sees it any more."""
        is_here = self.router.url.path.rstrip("/") == HOME
        return await self._check() if self.is_shown and is_here else None

    async def _check(self) -> rx.event.EventSpec | None:
        org = await self._org_id()
        if not org or self.hidden_for == org:
            self._assign("is_shown", False)
            return None
        try:
            await self._read()
        except SignedOut:
            return None
        except AppError as error:
            # The page itself says what is wrong; steps that are shown are checked again.
            log.info("first_steps_not_read", reason=error.message)
        else:
            self._assign("is_shown", self.done < len(self.steps))
        if not self.is_shown:
            return None
        wait = f"new Promise((done) => setTimeout(done, {CHECK_EVERY_MS}))"
        return rx.call_script(wait, callback=FirstStepsState.check_again)

    @rx.event
    async def hide(self) -> None:
        """Put the panel away in this browser."""
        self.hidden_for, self.is_shown = await self._org_id(), False


def steps(runner: Row, module: Row, plan: Row, mate: Row) -> list[Step]:
    """Say of each step what was done, or what to do; only the next one is the next one."""
    steps = (
        (
            runner, "Register a runner", f"{runner.get('name')} came online.",
            "A machine of yours that runs the engine. Ticked at its first heartbeat.", "", "Add runner",
        ),
        (
            module, "Create a module", f"{module.get('path')} was created.",
            "A repository or a few files, and the path it gets here.", "/dashboard/modules?new=1", "Create module",
        ),
        (
            plan, "Run a plan", f"Plan #{plan.get('id')} succeeded.",
            "Read-only. Ticked when the first plan succeeds.", "/dashboard/modules", "Choose a module",
        ),
        (
            mate, "Invite a teammate", "A second person has joined.",
            "Ticked when a second person has joined.", "/dashboard/settings/members", "Invite member",
        ),
    )  # fmt: skip
    next_at = next((at for at, step in enumerate(steps) if not step[0]), len(steps))
    return [_step(at, next_at, *step) for at, step in enumerate(steps)]


def _step(at: int, next_at: int, found: Row, title: str, done: str, todo: str, href: str, act: str) -> Step:
    state = "ok" if found else "next" if at == next_at else "todo"
    return {"title": title, "text": done if found else todo, "href": href, "act": act, "state": state}


def _act(step: rx.Var[Step], on_add: Any) -> rx.Component:
    def button(**props: Any) -> rx.Component:
        return rx.button(step["act"], color_scheme="gray", **props)

    ink = rx.cond(
        step["href"] != "",
        rx.link(button(high_contrast=True), href=step["href"], underline="none"),
        rx.cond(SessionState.can_admin, button(high_contrast=True, on_click=on_add), rx.fragment()),
    )
    quiet = rx.cond(
        step["href"] != "", rx.link(button(variant="surface"), href=step["href"], underline="none"), rx.fragment()
    )
    return rx.match(step["state"], ("ok", rx.fragment()), ("next", ink), quiet)


def _line(step: rx.Var[Step], at: rx.Var[int], on_add: Any) -> rx.Component:
    mark = rx.match(
        step["state"],
        ("ok", rx.el.span(icon("check", "s", aria_label="done"), class_name="ry-step ok")),
        ("next", rx.el.span(at + 1, class_name="ry-step now num")),
        rx.el.span(at + 1, class_name="ry-step num"),
    )
    return rx.el.li(
        mark,
        rx.el.div(rx.el.b(step["title"]), rx.el.small(step["text"], class_name="sm ry-block")),
        rx.el.span(_act(step, on_add)),
        class_name=step["state"].to(str),
        custom_attrs={"data-step": step["state"]},
    )


def first_steps(on_add: Any) -> rx.Component:
    """The panel; `on_add` opens the sheet that registers a runner."""
    state = FirstStepsState
    hide = rx.button("Hide", on_click=state.hide, size="1", variant="ghost", color_scheme="gray")
    panel = rx.el.section(
        rx.el.div(
            rx.el.h2("First steps"),
            rx.el.span(state.done, " of ", state.steps.length(), " done", class_name="mut num"),
            rx.el.span(class_name="grow"),
            hide,
            class_name="ry-ph",
        ),
        rx.el.ol(
            rx.foreach(state.steps, lambda step, at: _line(step, at, on_add)),
            class_name="ry-first",
            style={"list_style": "none"},
        ),
        class_name="ry-panel",
        aria_label="First steps",
        custom_attrs={"data-testid": "first-steps"},
    )
    return rx.cond(state.is_shown & SessionState.can_operate, panel, rx.fragment())
