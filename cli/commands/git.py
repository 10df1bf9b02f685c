"""`runyard git`: repositories whose pushes plan modules."""

from typing import Annotated, Any
from urllib.parse import urlsplit

from typer import Argument, Option

from cli.client.api import NOTIFY
from cli.command import Here, Yes, command, given, new_app, piped
from cli.errors import NotFound, Usage
from wire.tokens import make_webhook_secret

app = new_app("Repositories whose pushes plan modules.")
Repository = Annotated[
    str, Argument(metavar="REPOSITORY", help="Its URL, the end of its name such as infra/edge, or its id.")
]
Poll = Annotated[
    int | None, Option("--poll-seconds", help="How often it is read without an event: 60 to 86400, 0 is never.")
]
Token = Annotated[
    bool, Option("--token", help="Read an API token from standard input: results are reported to the provider.")
]
BaseUrl = Annotated[
    str | None,
    Option("--base-url", help="Where the provider's API is, if not at the host of the URL: https://…/api/v1."),
]
PROVIDERS = ("github", "gitlab", "gitea", "generic")
KNOWN_HOSTS = {"github.com": "github", "gitlab.com": "gitlab", "codeberg.org": "gitea"}


@command(app, "connect", calls=("connect_repository",))
def connect(
    here: Here,
    url: Annotated[str, Argument(metavar="URL", help="As modules name it: https://, ssh:// or git@host:path.")],
    provider: Annotated[
        str | None, Option("--provider", help="github, gitlab, gitea (also Forgejo) or generic.")
    ] = None,
    base_url: BaseUrl = None,
    poll_seconds: Poll = None,
    token: Token = False,
) -> None:
    """Plan modules when their branch changes. Prints the webhook's address and secret, once.

    Modules belong to the repository by the URL of their git source; no more is to be set. A runner reads the repository
    with its own credentials, after each event and every five minutes, so the webhook only makes it quicker.

        runyard git connect https://git.example.com/infra/edge.git --provider gitea
    """
    kind = provider or KNOWN_HOSTS.get(urlsplit(url).hostname or "")
    if kind not in PROVIDERS:
        raise Usage(f"The provider of {url} is not known.", f"Add --provider with one of: {', '.join(PROVIDERS)}.")
    secret = make_webhook_secret(kind)
    spec = {"provider": kind, "url": url, "base_url": base_url, **given(poll_seconds=poll_seconds)}
    spec |= {"webhook_secret": _seal(here, secret)}
    spec |= {"token": _seal(here, piped("token", "--token"))} if token else {}
    made = here.api.call("connect_repository", org=here.org.id, spec=spec)
    here.printer.result(made | _webhook(here, made["id"], secret), _connected)


@command(app, "set", calls=("update_git_connection",))
def set_connection(
    here: Here,
    repository: Repository,
    poll_seconds: Poll = None,
    base_url: BaseUrl = None,
    token: Token = False,
    no_token: Annotated[bool, Option("--no-token", help="Remove the API token: nothing is reported.")] = False,
    url: Annotated[str | None, Option("--url", help="Its new URL, after it was renamed or moved.")] = None,
    forks: Annotated[
        bool | None, Option("--forks/--no-forks", help="Whether members may request plans of commits of forks.")
    ] = None,
    identities: Annotated[
        bool | None,
        Option("--identities/--no-identities", help="Whether plans of pull requests get identities of jobs."),
    ] = None,
    new_secret: Annotated[
        bool, Option("--new-secret", help="Replace the webhook's secret, and print the new one once.")
    ] = False,
) -> None:
    """Change what is named. Another URL or API address removes the token: send it again with --token."""
    if token and no_token:
        raise Usage("A token is set or removed.", "Leave out --token or --no-token.")
    found = find(here, repository)
    secret = make_webhook_secret(found["provider"]) if new_secret else ""
    spec: dict[str, Any] = given(poll_seconds=poll_seconds) | (
        {} if base_url is None else {"base_url": base_url or None}
    )
    spec |= given(allows_forks=forks, allows_identities=identities, url=url or None)
    spec |= {"token": _seal(here, piped("token", "--token")) if token else None} if token or no_token else {}
    spec |= {"webhook_secret": _seal(here, secret)} if new_secret else {}
    after = here.api.call("update_git_connection", connection=found["id"], spec=spec)
    if new_secret:
        here.printer.result(after | _webhook(here, found["id"], secret), _connected)
    else:
        here.printer.result(after, lambda row: f"Changed {row['repository']}")


@command(app, "status", calls=("list_git_connections",))
def status(
    here: Here,
    repository: Annotated[str | None, Argument(metavar="REPOSITORY", help="Only this one, by module.")] = None,
) -> None:
    """List the repositories; of one, its modules with the commits that were seen and applied."""
    if repository:
        columns = (
            "path", "is_on", "branch", "folder", "watched", "apply", "apply_from", "seen_commit", "applied_commit",
            "commits_ahead", "problem",
        )  # fmt: skip
        modules = [_short(module) for module in find(here, repository)["modules"]]
        here.printer.rows(modules, columns, "No module uses this repository.")
        return
    rows = here.api.call("list_git_connections", org=here.org.id)
    heading = ("id", "provider", "repository", "modules", "state", "reports", "last_delivery_at", "resolved_at")
    shown = [row | {"modules": len(row["modules"]), "state": _state(row), "reports": _reports(row)} for row in rows]
    here.printer.rows(shown if not here.printer.as_json else rows, heading, "No repositories.")


@command(app, "deliveries", calls=("list_git_deliveries",))
def deliveries(
    here: Here,
    repository: Annotated[str | None, Option("--repository", help="Only of this one.")] = None,
    explain: Annotated[
        int | None, Option("--explain", metavar="DELIVERY", help="Why it planned each module, or did not.")
    ] = None,
    limit: Annotated[int, Option("--limit", help="How many, at most 200.")] = 50,
) -> None:
    """List events, the newest first, with what each led to and why."""
    which = find(here, repository)["id"] if repository else None
    before = explain + 1 if explain else None
    rows = here.api.call(
        "list_git_deliveries", org=here.org.id, connection=which, before=before, limit=1 if explain else limit
    )
    if explain is None:
        columns = ("id", "received_at", "event", "repository", "ref", "verdict", "jobs", "reason")
        here.printer.rows(rows, columns, "No deliveries.")
        return
    if not rows or rows[0]["id"] != explain:
        raise NotFound(f"There is no delivery {explain}.", "`runyard git deliveries` shows those of the last 30 days.")
    here.printer.rows(rows[0]["modules"], ("path", "verdict", "reason"), rows[0]["reason"] or "Not decided yet.")


@command(app, "poll", calls=("poll_repository",))
def poll(here: Here, repository: Repository) -> None:
    """Read a repository now, as an event would."""
    here.do("poll_repository", "Job {number}: `runyard jobs show {number}`", connection=find(here, repository)["id"])


@command(app, "follow", calls=("set_module_git",))
def follow(
    here: Here,
    module: Annotated[str, Argument(metavar="MODULE", help="Its path.")],
    branch: Annotated[
        str | None, Option("--branch", help='The branch that plans it; "" is the one of its source.')
    ] = None,
    paths: Annotated[
        list[str] | None, Option("--watch", help="One more path of the repository; several times for several.")
    ] = None,
    apply: Annotated[
        str | None,
        Option(
            "--apply",
            help="after-merge: plans wait to be confirmed · before-merge · merge-queue: GitHub's · never · inherit: as its group.",
        ),
    ] = None,
    is_on: Annotated[bool | None, Option("--on/--off", help="Whether pushes plan it.")] = None,
) -> None:
    """Change how a module follows its repository."""
    spec = given(paths=paths, is_on=is_on, apply=apply.replace("-", "_") if apply else None)
    if apply == "inherit":
        spec["apply"] = None
    if branch is not None:
        spec["branch"] = branch or None
    after = here.api.call("set_module_git", module=here.org.module(module)["id"], spec=spec)
    here.printer.result(after, lambda row: f"{module} follows {row['branch'] or 'the branch of its source'}")


@command(app, "move", calls=("move_module_folder",), page="Module → Repository")
def move(here: Here, module: Annotated[str, Argument(metavar="MODULE", help="Its path.")], yes: Yes = False) -> None:
    """Make a module use its folder under the new name: it stays the same module, with its state, and is planned.

    Only where its branch has the folder no more, and the same content in one other folder: `runyard git status REPOSITORY`.
    """
    repositories = here.api.call("list_git_connections", org=here.org.id)
    found = next((each for row in repositories for each in row["modules"] if each["path"] == module), None)
    if found is None or found["moved_to"] is None:
        why = (found or {}).get("problem") or "Its folder is where its source says, or nobody has read it yet."
        raise NotFound(f"There is no other folder for {module}. {why}", "Another folder: runyard modules edit.")
    here.confirm(f"Move {module} from {found['folder']} to {found['moved_to']}?", yes)
    after = here.api.call("move_module_folder", module=found["id"], folder=found["moved_to"])
    here.printer.result(after, lambda row: f"{row['path']} is in {found['moved_to']} now; a plan follows")


@command(app, "disconnect", calls=("disconnect_repository",))
def disconnect(here: Here, repository: Repository, yes: Yes = False) -> None:
    """Refuse its deliveries and read it no more; modules and jobs stay."""
    found = find(here, repository)
    here.confirm(f"Disconnect {found['repository']}?", yes)
    gone = here.api.call("disconnect_repository", connection=found["id"])
    here.printer.result(gone, lambda row: f"Disconnected {row['repository']}; remove the webhook at the provider, too")


def _seal(here: Here, secret: str) -> str:
    body = {"org": here.org.id, "channel": "webhook", "secret": secret}
    return str(here.api.request("POST", NOTIFY, "notify", body)["secret"])


def _webhook(here: Here, connection: str, secret: str) -> dict[str, str]:
    return {"webhook_url": f"{here.api.url}/functions/v1/git/{connection}", "webhook_secret": secret}


def _connected(row: dict[str, Any]) -> str:
    return (
        f"{row['repository']}: {len(row['modules'])} modules\n"
        f"Webhook: {row['webhook_url']}\n"
        f"Secret:  {row['webhook_secret']}\n"
        "The secret is not shown again. Send pushes and pull requests there as JSON."
    )


def _state(row: dict[str, Any]) -> str:
    if row["error"]:
        return f"Cannot be read: {row['error']}"
    if row["refused_at"] and row["refused_at"] > (row["last_delivery_at"] or ""):
        return "Signature refused"
    if missing := [module["path"] for module in row["modules"] if module["problem"]]:
        return f"No folder any more: {', '.join(missing)}"
    if not row["resolved_at"]:
        return "Not read yet"
    return "Connected" if row["last_delivery_at"] else "Found by poll only"


def _reports(row: dict[str, Any]) -> str:
    if row["provider"] == "generic":
        return "Off: the provider has no API"
    if not row["has_token"]:
        return "Off: no API token"
    last = row["last_report"] or {"status": "", "note": None}
    if last["status"] == "FAILED" or (last["status"] == "PENDING" and last["note"]):
        return f"Failed: {last['note']}"
    return "On"


def _short(module: dict[str, Any]) -> dict[str, Any]:
    return module | {name: (module[name] or "")[:12] or None for name in ("seen_commit", "applied_commit")}


def find(here: Here, text: str) -> dict[str, Any]:
    """Return the connected repository that a text names."""
    rows = here.api.call("list_git_connections", org=here.org.id)
    exact = [row for row in rows if text in (row["id"], row["url"], row["repository"])]
    name = text.removesuffix(".git").lower()
    found = exact or [row for row in rows if row["repository"].endswith(f"/{name}") or row["id"].startswith(text)]
    if len(found) != 1:
        raise NotFound(f'"{text}" is not a connected repository.', "`runyard git status` shows all of them.")
    return dict(found[0])
