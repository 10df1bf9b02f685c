"""How the chosen module follows its repository."""

import reflex as rx

from app.frame.session import AppState
from app.modules.view.repository import RepositoryView, build
from app.project.models import Row


class RepositoryState(AppState, rx.State):
    """The repository of the module that was chosen; its page reads it with the module, and when a runner has read it."""

    repository: RepositoryView = build(None)

    def _take(self, answer: Row) -> None:
        self._assign("repository", build(answer["repository"]))
