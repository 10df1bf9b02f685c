"""The repository that the chosen module follows, and the form of its settings."""

from typing import Any

import reflex as rx

from app.live.item_form import OpenForm
from app.modules.view.repository import RepositoryView, build, read_form
from app.project.models import Row


class RepositoryState(OpenForm, rx.State):
    """The repository of the module that was chosen; its page reads it with the module, and when a runner has read it."""

    repository: RepositoryView = build(None)

    def _take(self, answer: Row) -> None:
        view = build(answer["repository"])
        self.is_open = self.is_open and view["id"] == self.repository["id"]
        self._assign("repository", view)

    @rx.event
    def edit(self) -> None:
        """Open the form with the settings as they are."""
        self._draw_form()

    @rx.event
    async def save(self, form: dict[str, Any]) -> Any:
        """Save what was changed."""
        spec, module = read_form(self.repository, form), self.repository["id"]
        if not self.is_open or not module:
            return None
        if spec:
            await self._rpc("set_module_git", {"p_module": module, "p_spec": spec})
            org_id = await self._org_id()
            self._take(await self._rpc("module_page", {"p_org": org_id, "p_module": module}))
        self.is_open = False
        return rx.toast.success("Saved", description="It counts from the next push.") if spec else None
