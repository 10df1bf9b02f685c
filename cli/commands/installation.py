"""`runyard installation`: the whole installation, for its operator, with the secret key."""

from cli.command import Here, command, new_app

app = new_app(
    "The whole installation, for its operator. It needs SUPABASE_URL and SUPABASE_SECRET_KEY, which "
    'eval "$(runyard env)" sets for the local stack.'
)
HEALTH = (
    "postgres", "bytes", "connections", "most_connections", "oldest_transaction_seconds", "swept_seconds_ago",
    "published", "organizations", "unfinished_jobs", "runners_online",
)  # fmt: skip


@command(app, "health", calls=("installation_health",))
def health(here: Here) -> None:
    """Show what the database says of itself; `runyard doctor` judges it."""
    here.printer.row(here.operator.call("installation_health"), HEALTH)


@command(app, "organizations")
def organizations(here: Here) -> None:
    """List every organisation."""
    rows = here.operator.all_rows("organizations", order="slug")
    here.printer.rows(rows, ("slug", "name", "created_at", "id"), "No organisations.")


@command(app, "sweep", calls=("sweep",))
def sweep(here: Here) -> None:
    """Run the sweep now: lost runners, expired approvals, rows past their retention. Otherwise it runs automatically."""
    done = here.operator.call("sweep")
    here.printer.result(done, lambda said: ", ".join(f"{name}: {count}" for name, count in said.items()))
