"""The progress of the first steps, checked while one is left and the page is open."""

import reflex as rx
import structlog

from app.frame.session import AppState
from app.project.errors import AppError, SignedOut
from app.project.models import Filter
from app.runners.view.first_steps import Step, steps
from app.runners.view.form import TEST_GROUP, TEST_MODULE
from app.ui.view import Row

CHECK_EVERY_MS = 4000
HOME = "/runners"

log = structlog.get_logger(__name__)


class FirstStepsState(AppState, rx.State):
    """The first steps, done or not; checked again while one is left and the page is open."""

    hidden_for: str = rx.LocalStorage("", name="runyard-first-steps-hidden")
    steps: list[Step] = []
    done: int = 0
    is_shown: bool = False

    async def _first(self, table: str, columns: str, *filters: Filter) -> Row:
        return next(iter(await self._org_rows(table, *filters, columns=columns, order="created_at", limit=1)), {})

    async def _read(self) -> None:
        runner = await self._first("workers", "name", Filter("never_contacted", "is", "false"))
        # A module of "Run a test plan" goes away again: nobody has made one of their own yet.
        module = await self._first("modules", "path", Filter("is_temporary", "is", "false"))
        is_theirs = Filter("module_path", "neq", f"{TEST_GROUP}/{TEST_MODULE}")
        done = (Filter("type", "eq", "PLAN"), Filter("status", "eq", "SUCCEEDED"))
        plan = await self._first("provision_jobs", "number", *done, is_theirs)
        me = (await self._who()).user_id
        mate = await self._first("memberships", "user_id", Filter("user_id", "neq", me))
        self._assign("steps", steps(runner, module, plan, mate))
        self._assign("done", sum(step["state"] == "ok" for step in self.steps))

    @rx.event
    async def load(self) -> rx.event.EventSpec | None:
        self.steps, self.is_shown = [], False
        return await self._check()

    @rx.event
    async def check_again(self) -> rx.event.EventSpec | None:
        """Check once more, unless nobody sees it any more."""
        is_here = self.router.url.path.rstrip("/").endswith(HOME)
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
            # The page itself shows what is wrong; visible steps are checked again.
            log.info("first_steps_not_read", reason=error.message)
        else:
            self._assign("is_shown", self.done < len(self.steps))
        if not self.is_shown:
            return None
        wait = f"new Promise((done) => setTimeout(done, {CHECK_EVERY_MS}))"
        return rx.call_script(wait, callback=FirstStepsState.check_again)

    @rx.event
    async def hide(self) -> None:
        self.hidden_for, self.is_shown = await self._org_id(), False
