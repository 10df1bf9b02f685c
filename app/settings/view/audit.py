"""The audit log in words: what was done, to what, from which value to which."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from app.jobs.view.events import CANCEL_REASON, DECISIONS
from app.ui.view import Row, read

_WORD = re.compile(r"[a-z_]{1,40}(?:\.[a-z_]{1,40})?")
_ACTOR = re.compile(r"[^\w.@+ -]")

# Actions whose words do not follow from their name.
ACTIONS = {
    "job.enqueued": "Requested a job",
    "jobs.enqueued": "Requested jobs",
    "git.app_created": "Created a GitHub App",
    "git.app_removed": "Removed a GitHub App",
    "git.app_ended": "Ended a repository's GitHub App",
    "git.pull_request_planned": "Planned a pull request",
    "member.joined": "Joined",
    "organization.maintenance": "Announced maintenance",
    "organization.maintenance_ended": "Ended maintenance",
    "organization.shared_runners": "Set the use of shared runners",
    "job.approve": "Approved a job",
    "job.reject": "Rejected a job",
    "job.confirmed": "Confirmed a plan",
    "job.approval_overridden": "Approved a job of their own",
    "job.cancelled": "Cancelled a job",
    "job.retried": "Ran a job again",
    "job.resolved": "Decided about a lost job",
    "state.read": "Read a state",
    "state.force_unlocked": "Broke a state's lock",
    "state.stored": "Stored a kept state",
    "state.discarded": "Discarded a kept state",
    "state.rolled_back": "Rolled a state back",
    "member.invited": "Invited a member",
    "member.password_changed": "Changed their password",
    "member.device_added": "Added a device for two-step sign-in",
    "member.device_removed": "Removed a device for two-step sign-in",
    "member.entered_without_provider": "Signed in without the provider",
    "access.granted": "Gave access",
    "access.revoked": "Took access away",
    "delivery.sent_again": "Sent a delivery again",
    "dependencies.replaced": "Replaced dependencies",
    "organization.update_policy": "Set when runners update",
    "policy.overridden": "Overrode a check",
    "schedule.run": "Ran a schedule",
    "worker.assigned": "Assigned a runner",
    "worker.removal_queued": "Requested a runner's removal",
    "worker.update_queued": "Requested a runner's update",
}
THINGS = {
    "worker": "runner",
    "organization": "organisation",
    "cloud_identity": "cloud identity",
    "service_account": "service account",
    "git": "repository",
    "sign_in": "sign-in",
}
# Values that need no field: how a job was stopped, which its reason may repeat, and what was decided.
SAID = {**CANCEL_REASON, **DECISIONS, **{word: word for word in CANCEL_REASON.values()}}
PAGES = {"job": "/dashboard/jobs/", "worker": "/dashboard/runners/"}
LONGEST = 160


class Change(TypedDict):
    field: str
    old: str
    new: str


class AuditRow(TypedDict):
    id: int
    at: str
    who: str
    address: str
    action: str
    words: str
    what: str
    href: str
    detail: str
    changes: list[Change]


def build(row: Row) -> AuditRow:
    detail = row.get("detail") if isinstance(row.get("detail"), Mapping) else {}
    return read(
        AuditRow,
        row,
        who=row.get("actor_label"),
        words=words(str(row["action"])),
        what=target(row),
        href=link(row),
        detail=detail_words(detail or {}),
        changes=changes((detail or {}).get("changes")),
    )


def target(row: Row) -> str:
    """Name what an event is about; a job by its number, too."""
    label, identity = str(row.get("target_label") or ""), str(row.get("target_id") or "")
    return f"#{identity} {label}".rstrip() if row.get("target_kind") == "job" and identity else label or identity


def words(action: str) -> str:
    """Name an action as a person would: "Updated a module"; "worker.token_rotated" is "Rotated a runner's token"."""
    if action in ACTIONS:
        return ACTIONS[action]
    kind, _, done = action.partition(".")
    part, _, verb = done.rpartition("_")
    thing = THINGS.get(kind, kind.replace("_", " "))
    article = "an" if thing[:1] in "aeiou" else "a"
    owned = f"{thing}'s {part.replace('_', ' ')}" if part else thing
    return f"{verb.capitalize()} {article} {owned}" if verb else action


def link(row: Row) -> str:
    """Lead to what an event is about, where it has a page."""
    kind, target = str(row.get("target_kind") or ""), str(row.get("target_id") or "")
    if kind == "module" and row.get("target_label"):
        return f"/dashboard/modules?path={row['target_label']}"
    return f"{PAGES[kind]}{target}" if kind in PAGES and target else ""


def detail_words(detail: Row) -> str:
    """Format the other details of an event in one line."""
    plain = {key: value for key, value in detail.items() if isinstance(value, str | int) and value != ""}
    parts = [_field_words(key.replace("_", " "), value) for key, value in plain.items()]
    return ", ".join(dict.fromkeys(parts))[:LONGEST]


def _field_words(field: str, value: object) -> str:
    """Format one field: "capacity 2"; "assigned to all modules", or not; "Stop now"; "plan 61defff0"; "digest 61defff0"."""
    if isinstance(value, bool):
        said = field.removeprefix("is ")
        return said if value else f"not {said}"
    if field.endswith("sha256"):
        return f"{field.removesuffix('sha256').strip() or 'digest'} {str(value)[:8]}"
    return SAID.get(str(value)) or f"{field} {_value(value)}"


def changes(found: object) -> list[Change]:
    if not isinstance(found, Mapping):
        return []
    return [
        {"field": str(field).replace("_", " "), "old": _value(each.get("from")), "new": _value(each.get("to"))}
        for field, each in sorted(found.items())
        if isinstance(each, Mapping)
    ]


def _value(value: object) -> str:
    if isinstance(value, Mapping) and {"bytes", "sha256"} == set(value):
        return f"{value['bytes']} bytes, {str(value['sha256'])[:12]}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


@dataclass(frozen=True)
class AuditFilter:
    """The reader's choice: an action such as job.approved, or a kind of thing such as job, and part of a name."""

    action: str = ""
    actor: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "AuditFilter":
        """Read the choice from an address; what makes no sense is left out."""
        action, actor = query.get("action", ""), query.get("actor", "")
        return cls(action if _WORD.fullmatch(action) else "", _ACTOR.sub("", actor)[:100].strip())

    def conditions(self) -> list[tuple[str, str, str]]:
        """Build PostgREST's filters, as (column, operator, value)."""
        found = []
        if "." in self.action:
            found.append(("action", "eq", self.action))
        elif self.action:
            found.append(("action", "like", f"{self.action}.*"))
        if self.actor:
            escaped = self.actor.replace("_", r"\_")
            found.append(("actor_label", "ilike", f"*{escaped}*"))
        return found
