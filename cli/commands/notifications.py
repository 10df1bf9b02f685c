"""`runyard notifications`: which events go where, and what became of each message."""

import sys
from typing import Annotated, Any

from typer import Argument, Option

from cli.client.api import NOTIFY
from cli.command import Here, Yes, command, given, new_app, piped, with_id

app = new_app("Which events go where, and what became of each message.")
Rule = Annotated[str, Argument(metavar="RULE", help="Its id, or as much of its beginning as is needed.")]
Events = Annotated[list[str] | None, Option("--event", help="Such as job.failed; may be given several times.")]
Group = Annotated[str | None, Option("--group", help="Only what concerns this group or module.")]
Secret = Annotated[bool, Option("--secret", help="Read what messages are signed with from standard input.")]
PAGE = "Settings → Notifications"
COLUMNS = ("id", "is_on", "events", "channel", "address_hint", "path", "last")


@command(app, "list", calls=("list_notification_rules",), page=PAGE)
def list_rules(here: Here) -> None:
    """List the rules, each with its last delivery."""
    rows = here.api.call("list_notification_rules", org=here.org.id)
    here.printer.rows(
        [row | {"last": (row["last_delivery"] or {}).get("status")} for row in rows], COLUMNS, "No rules."
    )


@command(app, "create", calls=("create_notification_rule",), page=f"{PAGE} → Create rule")
def create(
    here: Here,
    channel: Annotated[str, Argument(metavar="CHANNEL", help="webhook, slack, teams or mail.")],
    address: Annotated[str, Argument(metavar="ADDRESS", help="Kept encrypted; - reads it from standard input.")],
    events: Events = None,
    group: Group = None,
    secret: Secret = False,
) -> None:
    """Send these events to an address."""
    where = sys.stdin.readline().strip() if address == "-" else address
    spec = {"channel": channel, "events": events or [], "path": group or ""}
    sealed = _seal(here, channel, where, piped("secret", "--secret") if secret else None)
    here.do("create_notification_rule", _sentence, org=here.org.id, spec=spec | sealed)


@command(app, "set", calls=("update_notification_rule",), page=f"{PAGE} → Edit")
def set_rule(
    here: Here,
    rule: Rule,
    address: Annotated[str | None, Option("--address", help="Another address; - reads it.")] = None,
    events: Events = None,
    group: Group = None,
    secret: Secret = False,
    is_on: Annotated[bool | None, Option("--on/--off", help="Whether it sends.")] = None,
) -> None:
    """Change what is named."""
    found = _find(here, rule)
    where = sys.stdin.readline().strip() if address == "-" else address
    spec = given(events=events, path=group, is_on=is_on)
    if where or secret:
        spec |= _seal(here, found["channel"], where, piped("secret", "--secret") if secret else None)
    here.do("update_notification_rule", _sentence, rule=found["id"], spec=spec)


@command(app, "test", calls=("test_notification_rule",), page=f"{PAGE} → Send test")
def test(here: Here, rule: Rule) -> None:
    """Send a test by a rule."""
    made = here.api.call("test_notification_rule", rule=_find(here, rule)["id"])
    here.printer.result(made, lambda row: f"Delivery {row['id']}: `runyard notifications log` shows the result.")


@command(app, "remove", calls=("remove_notification_rule",), page=f"{PAGE} → Remove")
def remove(here: Here, rule: Rule, yes: Yes = False) -> None:
    """Remove a rule with its address; the log stays."""
    found = _find(here, rule)
    here.confirm(f"Remove the rule {found['channel']} {found['address_hint']}?", yes)
    here.do("remove_notification_rule", "Removed {id}", rule=found["id"])


@command(app, "log", calls=("list_deliveries",), page=f"{PAGE} → Deliveries")
def log(
    here: Here,
    status: Annotated[str | None, Option("--status", help="pending, delivered, kept or failed.")] = None,
    limit: Annotated[int, Option("--limit", help="How many.")] = 50,
) -> None:
    """List the messages, the newest first; `--status kept` is the outbox where nothing sends mail."""
    wanted = status.upper() if status else None
    page = here.api.call("list_deliveries", org=here.org.id, status=wanted, limit=limit)
    columns = ("id", "created_at", "event", "title", "channel", "status", "attempt", "note", "next_at")
    here.printer.rows(page["rows"], columns, "No deliveries.")


@command(app, "resend", calls=("redeliver",), page=f"{PAGE} → Deliveries → Send again")
def resend(here: Here, delivery: Annotated[int, Argument(metavar="DELIVERY", help="Its number.")]) -> None:
    """Send a message again, now, with the same event id."""
    here.do("redeliver", "Delivery {id} is sent again", delivery=delivery)


@command(app, "connect", calls=("set_notifier_url",))
def connect(
    here: Here,
    url: Annotated[str | None, Argument(metavar="URL", help="The function's; the project's own if left out.")] = None,
) -> None:
    """Tell a hosted project where its function is, with SUPABASE_SECRET_KEY; the embedded stack needs none."""
    after = here.operator.call("set_notifier_url", url=url or f"{here.operator.url}{NOTIFY}")
    here.printer.result(after, lambda row: f"The sweep wakes {row['url']}")


def _seal(here: Here, channel: str, address: str | None, secret: str | None) -> dict[str, Any]:
    body = given(org=here.org.id, channel=channel, address=address, secret=secret)
    return dict(here.api.request("POST", NOTIFY, "notify", body))


def _find(here: Here, text: str) -> dict[str, Any]:
    rows = here.api.call("list_notification_rules", org=here.org.id)
    return with_id(rows, text, "rule", "notifications list")


def _sentence(row: dict[str, Any]) -> str:
    where = row["path"] or "the organisation"
    return f"{row['id']}  {row['channel']} {row['address_hint']}: {', '.join(row['events'])} of {where}"
