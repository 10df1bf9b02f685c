"""How the chosen module follows its repository."""

import reflex as rx

from app.frame.session import AppState
from app.modules.view.repository import RepositoryView, build


class RepositoryState(AppState, rx.State):
    """The repository of the module that was chosen; its page reads it with the module, and when a runner has read it."""

    repository: RepositoryView = build(None)

    async def _read(self, module_id: str) -> None:
        self._assign("repository", build(await self._rpc("module_repository", {"p_module": module_id})))
