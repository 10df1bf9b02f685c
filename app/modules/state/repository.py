"""The repository that the chosen module follows, and the form of its settings."""

from typing import Any

import reflex as rx

from app.live.item_form import OpenForm
from app.modules.view.repository import RepositoryView, build, read_form
from app.project.models import Row


class RepositoryState(OpenForm, rx.State):
    """The repository of the module that was chosen; its page reads it with the module, and when a runner has read it."""

    repository: RepositoryView = build(None)
    is_moving: bool = False

    def _take(self, answer: Row) -> None:
        view = build(answer["repository"])
        is_same = view["id"] == self.repository["id"]
        self.is_open = self.is_open and is_same
        self.is_moving = self.is_moving and is_same and view["moved_to"] == self.repository["moved_to"] != ""
        self._assign("repository", view)

    @rx.event
    def edit(self) -> None:
        self._draw_form()

    async def _send(self, name: str, args: Row) -> None:
        module = self.repository["id"]
        await self._rpc(name, {"p_module": module, **args})
        self._take(await self._rpc("module_page", {"p_org": await self._org_id(), "p_module": module}))

    @rx.event
    def ask_move(self, is_moving: bool) -> None:
        """Ask before the module follows its folder; or do not."""
        self.is_moving = is_moving and self.repository["moved_to"] != ""

    @rx.event
    async def move(self) -> Any:
        """Make the module use the folder that has its content now."""
        folder = self.repository["moved_to"]
        if not self.is_moving:
            return None
        self.is_moving = False
        await self._send("move_module_folder", {"p_folder": folder})
        return rx.toast.success("Saved", description=f"A plan of {folder} follows.")

    @rx.event
    async def save(self, form: dict[str, Any]) -> Any:
        spec = read_form(self.repository, form)
        if not self.is_open or not self.repository["id"]:
            return None
        if spec:
            await self._send("set_module_git", {"p_spec": spec})
        self.is_open = False
        return rx.toast.success("Saved", description="It counts from the next push.") if spec else None
