"""`runyard releases`: published versions of the runner."""

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from cli.command import Here, command, new_app, read_text
from cli.errors import first

app = new_app("Published versions of the runner. Publishing and withdrawing need the secret key.")
COLUMNS = ("version", "channel", "published_at", "is_breaking", "withdrawn_at")


@command(app, "list", page="Runners → Releases")
def list_releases(here: Here) -> None:
    """List the releases, the newest first."""
    rows = here.api.all_rows("worker_releases", order="published_at.desc,version.desc")
    here.printer.rows(rows, COLUMNS, "No releases.")


@command(app, "notes", page="Runners → Releases")
def notes(here: Here, version: Annotated[str, Argument(help="Such as 1.2.0.")]) -> None:
    """Print a release's notes."""
    rows = here.api.rows("worker_releases", version=f"eq.{version}")
    found = first(rows, f"There is no release {version}.", "`runyard releases list` shows all releases.")
    here.printer.result(found, lambda row: str(row["notes"]).rstrip())


@command(app, "publish", calls=("publish_release",))
def publish(
    here: Here,
    version: Annotated[str, Argument(help="Such as 1.2.0.")],
    channel: Annotated[str, Option(help="stable or beta.")] = "stable",
    notes_file: Annotated[Path | None, Option("--notes", help="A file with the notes, in Markdown.")] = None,
    breaking: Annotated[bool, Option("--breaking", help="An administrator should read the notes first.")] = False,
    artifacts: Annotated[Path | None, Option("--artifacts", help="A JSON file: a list of artifacts.")] = None,
) -> None:
    """Publish a release, with the secret key; publishing the same again changes nothing."""
    spec: dict[str, Any] = {"version": version, "channel": channel, "is_breaking": breaking}
    if notes_file:
        spec["notes"] = read_text(notes_file)
    if artifacts:
        spec["artifacts"] = json.loads(read_text(artifacts))
    made = here.operator.call("publish_release", spec=spec)
    here.printer.result(made, lambda row: f"Published {row['version']} ({row['channel']})")


@command(app, "withdraw", calls=("withdraw_release",))
def withdraw(
    here: Here,
    version: Annotated[str, Argument(help="Such as 1.2.0.")],
    reason: Annotated[str, Option(help="Why; shown on the page.")],
) -> None:
    """Withdraw a release, with the secret key: no runner is updated to it any more."""
    done = here.operator.call("withdraw_release", version=version, reason=reason)
    here.printer.result(done, lambda _: f"Withdrew {version}")
