"""The plan on a job's page: its first resources, one kind of them, and what changes in each."""

import dataclasses

import reflex as rx

from app.frame.session import AppState
from app.jobs.view import plan as plans
from app.jobs.view import reviews
from app.project.models import Row

FEW_RESOURCES = 7


class PlanPart(AppState, mixin=True):
    plan: plans.Plan = plans.Plan()
    plan_words: str = ""
    kind: str = ""
    more_resources: int = 0
    is_all_resources: bool = False
    _planned: Row = {}
    _opened: dict[str, Row] = {}

    def _forget_plan(self) -> None:
        self._planned, self._opened, self.is_all_resources, self.kind = {}, {}, False, ""

    def _show_plan(self) -> None:
        built = plans.build(self._planned, self._opened)
        self._assign("plan_words", plans.sentence(built))
        found = tuple(resource for resource in built.resources if self.kind in ("", resource.word))
        shown = found if self.is_all_resources else found[:FEW_RESOURCES]
        self._assign("plan", dataclasses.replace(built, resources=shown))
        self._assign("more_resources", len(found) - len(shown))

    @rx.event
    def show_resources(self) -> None:
        self.is_all_resources = not self.is_all_resources
        self._show_plan()

    @rx.event
    def choose_kind(self, kind: str) -> None:
        """Show only what the plan creates, updates, replaces or deletes; the same kind again shows everything."""
        self.kind = "" if kind == self.kind else kind
        self._show_plan()

    @rx.event
    async def open_resource(self, address: str) -> None:
        """Unfold a resource to what changes in it, or fold it again."""
        if not self._planned:
            return
        opened = {key: value for key, value in self._opened.items() if key != address}
        if len(opened) == len(self._opened):
            args = {"p_job": int(self._planned["id"]), "p_address": address[:2000]}
            answer = await self._rpc("plan_changes", args)
            opened[address] = reviews.changes(answer)
        self._opened = opened
        self._show_plan()
