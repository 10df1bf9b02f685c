"""Other modules that the chosen one is linked to: one is added by its path, or removed."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import reflex as rx

from app.frame.session import AppState
from app.project.errors import NotThere
from app.project.models import Filter, Query, Row

Call = Callable[[str], Awaitable[None]]


class LinkedModules(AppState, mixin=True):
    revision: int = 0
    _module_id: str = ""

    def _take(self, answer: Row) -> None:
        """Show what the module's page was answered."""
        raise NotImplementedError

    async def _read_again(self) -> None:
        self._take(await self._rpc("module_page", {"p_org": await self._org_id(), "p_module": self._module_id}))

    async def _link(self, typed: Any, call: Call, words: str, description: str) -> Any:
        """Link the module at the path that was typed; `words` has a place for it."""
        path = str(typed or "").strip().strip("/")[:500]
        if not self._module_id or not path:
            return None
        await call(await find_module(self, path))
        # The fields are uncontrolled: another number empties them.
        self.revision += 1
        return rx.toast.success(words.format(path), description=description)

    async def _unlink(self, known: Iterable[Any], module: str, call: Call, words: str) -> Any:
        path = next((each["path"] for each in known if each["id"] == module), "")
        if not path:
            return None
        await call(module)
        return rx.toast.success(words.format(path))


async def find_module(state: AppState, path: str) -> str:
    """Return the id of the organisation's module at a path; refuse a path without one."""
    mine = (Filter("org_id", "eq", await state._org_id()), Filter("deleted_at", "is", "null"))
    query = Query(columns="id", filters=(*mine, Filter("path", "eq", path)), limit=1)
    rows = (await state._select("modules", query)).rows
    if not rows:
        raise NotThere(f'There is no module "{path}".', "Choose one of the list.")
    return str(rows[0]["id"])
