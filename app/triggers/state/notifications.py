"""Notification rules, the log of deliveries, and the form that creates and edits a rule."""

from typing import Any, ClassVar

import reflex as rx

from app.frame.session import acts, takes
from app.live.item_form import Items, Removal
from app.live.page import LogPages
from app.project.errors import AppError, Refused
from app.project.models import BrowserSession
from app.project.store import Changed, OrgStore
from app.triggers.view import notifications

NEW: notifications.RuleView = {**notifications.build_rule({}), "event_keys": ["job.failed", "job.needs_attention"]}
PAGE = 20
# The words for the answers of assets/needs_you.js when a person turns the browser's own notifications on or off.
BROWSER_WORDS = {
    "on": ("Notifications are on", "This browser shows one when another job waits for a decision."),
    "off": ("Notifications are off", "The tab's title still counts the jobs that wait for a decision."),
    "denied": (
        "The browser blocks notifications",
        "Allow them for this site in the browser's settings, then try again.",
    ),
    "unsupported": ("This browser has no notifications", "Create a rule instead, or watch the tab's title."),
}


class BadAddress(AppError):
    """Messages cannot be sent there: its field shows why."""


class NotificationsState(Items, LogPages, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset({"notification_rules", "deliveries"})
    EMPTY: ClassVar[notifications.RuleView] = NEW
    REMOVAL = Removal("remove_notification_rule", "p_rule", "Rule removed")

    rows: list[notifications.RuleView] = []
    deliveries: list[notifications.DeliveryView] = []
    total: int = 0
    attempts: int = 0
    status: str = "any"
    chosen: notifications.RuleView = NEW
    channel: str = "webhook"
    events: list[str] = []
    is_browser_on: bool = False

    set_channel = takes("channel", of=notifications.CHANNELS)
    test = acts("test_notification_rule", "p_rule", "Test queued")

    async def _prepare(self, session: BrowserSession) -> None:
        await super()._prepare(session)
        self.before = []

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        rules = await self._rpc("list_notification_rules", {"p_org": store.org_id})
        self._assign("rows", [notifications.build_rule(row) for row in rules])
        if (await self._who()).can_admin:
            await self._read_log(store.org_id)

    async def _read_log(self, org: str) -> None:
        status = None if self.status == "any" else self.status
        args = {"p_org": org, "p_status": status, "p_before": self._before(), "p_limit": PAGE}
        page = await self._rpc("list_deliveries", args)
        self._assign("attempts", int(page["attempts"]))
        self._assign("total", int(page["total"]))
        self._assign("deliveries", [notifications.build_delivery(row, self.attempts) for row in page["rows"]])
        self._assign("has_older", len(page["rows"]) == PAGE)

    @rx.event
    def browser_is(self, answer: str) -> None:
        """Learn whether this browser shows notifications."""
        self.is_browser_on = answer == "on"

    @rx.event
    def browser_turned(self, answer: str) -> rx.event.EventSpec | None:
        if answer not in BROWSER_WORDS:
            return None
        self.is_browser_on = answer == "on"
        said = rx.toast.success if answer in ("on", "off") else rx.toast.error
        title, text = BROWSER_WORDS[answer]
        return said(title, description=text)

    @rx.event
    async def set_status(self, value: str) -> None:
        self.status, self.before = value, []
        await self._again()

    def _fill(self, chosen: notifications.RuleView, *, is_new: bool) -> None:
        super()._fill(chosen, is_new=is_new)
        self.channel, self.events = chosen["channel"], list(chosen["event_keys"])

    @rx.event
    def set_event(self, key: str, is_on: bool) -> None:
        chosen = {*self.events, key} if is_on else {*self.events} - {key}
        self.events = [each for each in notifications.EVENTS if each in chosen]

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        checked = notifications.check_form(form, self.channel, self.events, is_new=self.is_new)
        if self._is_refused(checked):
            return None
        try:
            await self._save(checked.spec | await self._sealed(form))
            await self._again()
        except BadAddress as error:
            self.errors = {"address": f"{error.message} {error.hint}"}
            return None
        self.is_open = False
        return rx.toast.success("Rule created" if self.is_new else "Saved")

    async def _sealed(self, form: dict[str, Any]) -> dict[str, Any]:
        """Send the typed values out of this process to the function that seals them, and keep them nowhere."""
        given = {name: str(form.get(name) or "").strip() for name in ("address", "secret")}
        wanted = {name: text for name, text in given.items() if text}
        if not wanted:
            return {}
        body = {"org": await self._org_id(), "channel": self.channel, **wanted}
        try:
            return dict(await self._invoke("notify", body))
        except Refused as error:
            raise BadAddress(error.message, error.hint) if error.code == "RY422" else error from error

    async def _save(self, spec: dict[str, Any]) -> None:
        if self.is_new:
            await self._rpc("create_notification_rule", {"p_org": await self._org_id(), "p_spec": spec})
        else:
            await self._rpc("update_notification_rule", {"p_rule": self.chosen["id"], "p_spec": spec})

    @rx.event
    async def switch(self, key: str, is_on: bool) -> rx.event.EventSpec | None:
        args = {"p_rule": key, "p_spec": {"is_on": is_on}}
        return await self._act("update_notification_rule", args, "It sends" if is_on else "It sends nothing")

    @rx.event
    async def again(self, key: str) -> rx.event.EventSpec | None:
        return await self._act("redeliver", {"p_delivery": int(key)}, "Queued") if key.isdigit() else None
