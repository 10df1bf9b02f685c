"""Connected repositories and their deliveries: rows, words, the form, and how a webhook is entered at a provider."""

import base64
import re
import secrets
from typing import TypedDict

from app.ui.form import fields
from app.ui.form.fields import Checked, texts
from app.ui.view import Row, count, read

PROVIDERS = {
    "github": "GitHub",
    "gitlab": "GitLab",
    "gitea": "Gitea or Forgejo",
    "generic": "Other (Standard Webhooks)",
}
POLLS = {
    "60": "Every minute",
    "300": "Every 5 minutes",
    "900": "Every 15 minutes",
    "3600": "Every hour",
    "0": "Never: only after a webhook",
}
STEPS = {
    "github": [
        "Open the repository's Settings → Webhooks → Add webhook.",
        "Enter the address as payload URL, application/json as content type, and the secret.",
        "Choose individual events: pushes, pull requests and, for commands, issue comments; for a merge queue, merge groups.",
    ],
    "gitlab": [
        "Open the project's Settings → Webhooks → Add new webhook.",
        "Enter the address as URL and the secret as secret token.",
        "Choose push events, merge request events and, for commands, comments.",
    ],
    "gitea": [
        "Open the repository's Settings → Webhooks → Add webhook, type Gitea or Forgejo.",
        "Enter the address as target URL, application/json as content type, and the secret.",
        "Choose custom events: push, pull request, pull request synchronized and, for commands, pull request comment.",
    ],
    "generic": [
        "Configure the sender to POST JSON to the address after each push: a ref and a commit.",
        "Sign each request with the secret, as Standard Webhooks describes.",
    ],
}
MIN_TOKEN = 8
EVENTS = {
    "push": "Push",
    "pull_request": "Pull request",
    "comment": "Comment",
    "merge_group": "Merge queue",
    "poll": "Poll",
    "ping": "Ping",
}


class ConnectionView(TypedDict):
    id: str
    name: str
    provider: str
    provider_words: str
    base_url: str
    has_token: bool
    reports: str
    modules: str
    status: str
    why: str
    delivered_at: str
    read_at: str
    poll: str
    poll_words: str


class ModuleVerdict(TypedDict):
    """The verdict of a delivery on one module, and the reason."""

    path: str
    verdict: str
    reason: str


class DeliveryView(TypedDict):
    id: str
    at: str
    event: str
    repository: str
    short: str
    ref: str
    commit: str
    pull_request: str
    sender: str
    verdict: str
    reason: str
    job: int
    jobs: list[int]
    change: str
    modules: list[ModuleVerdict]


def build_connection(row: Row) -> ConnectionView:
    provider, poll = str(row.get("provider") or "github"), str(row.get("poll_seconds", 300))
    status, why = connection_status(row)
    return read(
        ConnectionView,
        row,
        name=row.get("repository"),
        provider=provider,
        provider_words=PROVIDERS.get(provider, provider),
        reports=_reports(row, provider),
        modules=count(len(row.get("modules") or []), "module"),
        status=status,
        why=why,
        delivered_at=row.get("last_delivery_at"),
        read_at=row.get("resolved_at"),
        poll=poll,
        poll_words="not polled" if poll == "0" else f"polled {POLLS.get(poll, f'every {poll} s').lower()}",
    )


def _reports(row: Row, provider: str) -> str:
    if provider == "generic":
        return "no reports: it has no API"
    if not row.get("has_token"):
        return "no reports: no API token"
    last = row.get("last_report") or {}
    has_failed = last.get("status") == "FAILED" or (last.get("status") == "PENDING" and last.get("note"))
    return f"reports fail: {last.get('note') or 'no answer'}" if has_failed else "reports results"


def connection_status(row: Row) -> tuple[str, str]:
    """Return BROKEN, REFUSED, MISSING, UNUSED, UNREAD, SILENT or CONNECTED, and the sentence that explains it."""
    delivered = str(row.get("last_delivery_at") or "")
    if row.get("error"):
        return "BROKEN", str(row["error"])
    if str(row.get("refused_at") or "") > delivered:
        return "REFUSED", "A delivery had a wrong signature. Compare the secret at the provider, or create a new one."
    missing = [f"{module['path']}: {module['problem']}" for module in row.get("modules") or [] if module.get("problem")]
    if missing:
        return "MISSING", " ".join(missing)
    if not row.get("modules"):
        return "UNUSED", "No module has this repository as its source."
    if not row.get("resolved_at"):
        return "UNREAD", "No runner has read it yet."
    if not delivered:
        return "SILENT", "No webhook came yet. The poll finds changes."
    return "CONNECTED", ""


def build_delivery(row: Row) -> DeliveryView:
    pull, ref = row.get("pull_request"), str(row.get("ref") or "")
    repository = str(row.get("repository") or "")
    return read(
        DeliveryView,
        row,
        at=row.get("received_at"),
        event=_event(row),
        short=repository.partition("/")[2],
        ref=ref.removeprefix("refs/heads/").removeprefix("refs/"),
        commit=(row.get("after_commit") or "")[:7],
        pull_request=f"#{pull}" if pull else "",
        reason=row.get("reason") or "A runner reads the repository first.",
        job=row.get("job_number"),
        change=change_href(row),
        modules=[read(ModuleVerdict, module) for module in row.get("modules") or []],
    )


def change_href(row: Row) -> str:
    """Return the address of the page of a delivery's pull request or commit; none for a commit that started nothing."""
    what = row.get("pull_request") or (row.get("after_commit") if row.get("jobs") else "")
    return f"/dashboard/changes/{row.get('connection_id')}/{what}" if what else ""


def _event(row: Row) -> str:
    event, action = str(row.get("event") or ""), str(row.get("action") or "")
    words = EVENTS.get(event, event.replace("_", " ").capitalize())
    return f"{words}, {action.replace('_', ' ')}" if action else words


def check_form(raw: object, provider: str, poll: str, *, is_new: bool) -> Checked:
    """Check the form; the secret and the token stay out of the specification: they are sealed first."""
    form, checked = texts(raw), Checked()
    if poll not in POLLS:
        checked.errors["poll"] = "Choose how often it is read."
    checked.spec = {"poll_seconds": int(poll) if poll in POLLS else 0}
    if provider != "generic":
        checked.spec["base_url"] = checked.take("base_url", form, _base_url, "") or None
        checked.take("token", form, _token, "")
    if is_new:
        checked.spec |= {"provider": provider, "url": checked.take("url", form, fields.git_url, "")}
        if provider not in PROVIDERS:
            checked.errors["provider"] = "Choose a provider."
    return checked


def _base_url(text: str) -> str:
    if text.strip() and not re.fullmatch(r"https?://[^\s@]+", text.strip()):
        raise fields.Wrong("An address like https://git.example.com/api/v1, without user and password.")
    return text.strip()


def _token(text: str) -> str:
    if text.strip() and len(text.strip()) < MIN_TOKEN:
        raise fields.Wrong(f"At least {MIN_TOKEN} characters.")
    return text.strip()


def new_secret(provider: str) -> str:
    """Create a webhook secret; Standard Webhooks write theirs in base64 after a mark."""
    if provider == "generic":
        return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    return secrets.token_urlsafe(32)
