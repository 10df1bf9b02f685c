"""Making what is missing of the demo, and saying which processes belong to it."""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.client import auth
from cli.client.api import Api
from cli.client.http import Connection
from cli.commands.notifications import NOTIFY
from cli.engines.cache import binary_folder, find
from cli.engines.catalog import ENGINES
from cli.folders import sources_folder
from cli.launcher.process import Part
from cli.manifest import read_manifest
from cli.runners.shared import SharedRunner, give_token
from cli.variables import sealing
from cli.version import __version__
from stack.secrets import Secrets
from stack.settings import PROJECT, Settings
from wire.tokens import make_token


class TokenFile:
    """Tokens by the runner's name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokens: dict[str, dict[str, str]] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, name: str) -> dict[str, str] | None:
        """Return id and token of a runner that was registered before."""
        return self._tokens.get(name)

    def put(self, name: str, worker_id: str, token: str) -> dict[str, str]:
        """Keep id and token; nobody else can read the file."""
        self._tokens[name] = {"id": worker_id, "token": token}
        self._path.touch(mode=0o600)
        self._path.chmod(0o600)
        self._path.write_text(json.dumps(self._tokens, indent=2))
        return self._tokens[name]


DEMO_EMAIL = "demo@runyard.local"
ORGANISATION = ("Example Platform", "example-platform")
MANIFEST = Path(__file__).with_name("runyard.yaml")
RELEASES = (
    {"version": "0.0.9", "notes": "### Fixed\n\n- Logs of a job that was cut off are shipped on the next start.\n"},
    {
        "version": __version__,
        "notes": (
            "### Added\n\n- OpenTofu, Terraform and Pulumi as steps, each with its own section in the log.\n"
            "- State kept in the database, fenced by attempt.\n- `runyard-worker doctor`.\n\n"
            "### Changed\n\n- A runner finishes its jobs before it updates.\n"
        ),
    },
)
Credentials = dict[str, str]
SHARED, OWN, OLDER, WAITING = "shared-default", "build-host-01", "build-host-02", "gpu-lab"


@dataclass(frozen=True)
class Demo:
    """The account that can sign in, and the runners to supervise."""

    email: str
    password: str
    parts: list[Part] = field(default_factory=list)
    note: str = ""
    """The parts that are left out here, and the remedy."""


NO_RUNNERS = (
    "its runners are left out: on this machine their jobs could read this installation's secrets. Install bubblewrap, "
    "or use Linux 6.12 or newer; `runyard-worker doctor` shows what is missing."
)


async def prepare_demo(settings: Settings, secrets: Secrets) -> Demo:
    """Make what is missing of the demo, through the API as anybody would; safe to run again."""
    shared, own, older = await asyncio.to_thread(_prepare, settings, secrets)
    if own is None or older is None:
        return Demo(DEMO_EMAIL, secrets.demo_password, note=NO_RUNNERS)
    await _begin_engine()
    parts = [
        *([runner_part(settings, SHARED, shared)] if shared else []),
        runner_part(settings, OWN, own),
        runner_part(settings, OLDER, older, script=sources_folder() / "scripts" / "older_runner.py"),
        activity_part(settings, secrets),
    ]
    return Demo(DEMO_EMAIL, secrets.demo_password, parts)


def _prepare(settings: Settings, secrets: Secrets) -> tuple[Credentials | None, Credentials | None, Credentials | None]:
    tokens = TokenFile(settings.demo_file)
    connection = Connection(settings.url)
    operator = Api(connection, secrets.secret_key, secrets.secret_key)
    auth.make_account(operator, DEMO_EMAIL, secrets.demo_password)
    session = auth.sign_in(connection, secrets.publishable_key, DEMO_EMAIL, secrets.demo_password)
    person = Api(connection, secrets.publishable_key, session.access_token)
    organisation = _organisation(person)
    _releases(operator)
    labels = _content(settings, person, organisation)
    options = {"capacity": 2, "is_assigned_to_all_modules": True, "labels": labels}
    own = _runner(person, organisation, tokens, OWN, options)
    older = _runner(person, organisation, tokens, OLDER, {"assignments": ["data"], "labels": labels})
    _runner(person, organisation, tokens, WAITING, {"assignments": ["ml/training"], "labels": ["gpu=true"]})
    # Modules run as the user who started all this: only where they cannot read that user's secrets, and anybody's
    # only where they are isolated altogether.
    found = isolation_here(settings, own)
    shared = _shared_runner(operator, tokens) if found.is_whole else None
    connection.close()
    return shared, *((own, older) if found.are_secrets_kept else (None, None))


def _organisation(person: Api) -> str:
    name, slug = ORGANISATION
    mine = person.call("my_organizations")
    found = next((one["id"] for one in mine if one["slug"] == slug), None)
    return str(found or person.call("create_organization", name=name, slug=slug)["id"])


def _releases(administrator: Api) -> None:
    published = {row["version"] for row in administrator.rows("worker_releases", select="version")}
    for release in RELEASES:
        if release["version"] not in published:
            administrator.call("publish_release", spec=release)


def _content(settings: Settings, person: Api, organisation: str) -> list[str]:
    """Fill the organisation on the first start; returns the labels of runners that open its secret."""
    if person.rows("modules", select="path", org_id=f"eq.{organisation}"):
        return []
    manifest = read_manifest(MANIFEST)
    if find(ENGINES["opa"]) is None:
        # A set that cannot be evaluated fails.
        del manifest["policies"]
    person.call("apply_manifest", org=organisation, manifest=manifest)
    rule = {"channel": "mail", "events": ["job.awaiting_approval", "job.failed"], "path": ""}
    address = {"org": organisation, "channel": "mail", "address": DEMO_EMAIL}
    sealed = person.request("POST", NOTIFY, "notify", address)
    person.call("create_notification_rule", org=organisation, spec=rule | sealed)
    return [_secret(settings, person, organisation)]


def _secret(settings: Settings, person: Api, organisation: str) -> str:
    """Seal a password of the warehouse; returns the label of runners that have the key."""
    file = _key_file(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    key = person.call("create_sealing_key", org=organisation, public_key=sealing.write_new_key(file))
    path = "data/warehouse"
    variable = sealing.seal(key, (path, "env", "WAREHOUSE_PASSWORD", False), make_token().text)
    person.call("set_variables", org=organisation, path=path, variables=[variable])
    return str(key["label"])


def _key_file(settings: Settings) -> Path:
    return settings.home / "demo" / "sealing.key"


def _runner(person: Api, organisation: str, tokens: TokenFile, name: str, options: dict[str, Any]) -> dict[str, str]:
    known = tokens.get(name)
    if known is not None:
        return known
    token = make_token()
    made = person.call(
        "register_worker", org=organisation, name=name, token_hash=token.hash, token_hint=token.hint, options=options
    )
    return tokens.put(name, made["id"], token.text)


def _shared_runner(administrator: Api, tokens: TokenFile) -> dict[str, str]:
    known = tokens.get(SHARED)
    if known is not None:
        return known
    made = give_token(administrator, SharedRunner(name=SHARED, capacity=2), "made")
    return tokens.put(SHARED, made.id, made.token or "")


async def _begin_engine() -> None:
    """Start providing the engine in the background; nobody waits for it."""
    command = [sys.executable, "-m", "cli", "engines", "ensure", "tofu", "--background"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=PROJECT, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    await process.wait()


@dataclass(frozen=True)
class Found:
    """The findings of the runner's own doctor about jobs on this machine."""

    is_whole: bool = False
    are_secrets_kept: bool = False


def isolation_here(settings: Settings, credentials: Credentials) -> Found:
    """Ask the doctor, whose child tries to read the installation's secrets as a job would."""
    part = runner_part(settings, SHARED, credentials)
    done = subprocess.run(
        [part.command()[0], "doctor", "--json"], env=dict(part.environment()), cwd=PROJECT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    try:
        verdicts = {each["name"]: each["verdict"] for each in json.loads(done.stdout)}
    except ValueError:
        return Found()
    are_kept = verdicts.get("Reach of a job") == "ok"
    # A shared runner does not start as root, about which the doctor warns.
    is_whole = all(verdicts.get(name) == "ok" for name in ("Isolation", "User"))
    return Found(are_kept and is_whole, are_kept)


def runner_part(settings: Settings, name: str, credentials: Credentials, script: Path | None = None) -> Part:
    """Describe a demo runner: the real program, with the three variables that a person would set."""
    program = [sys.executable, str(script)] if script else [str(Path(sys.prefix) / "bin" / "runyard-worker")]
    folder = settings.home / "demo" / name
    engines = [str(binary_folder(ENGINES[each])) for each in ("tofu", "opa")]
    variables = {
        "WORKER_ID": credentials["id"],
        "WORKER_TOKEN": credentials["token"],
        "WORKER_INSTANCE": name,
        "SUPABASE_URL": settings.url,
        # Nothing is read from there; it names what jobs are to be kept away from.
        "RUNYARD_SECRETS": str(settings.home),
        "RUNYARD__ENGINE__ADDITIONAL_BINARY_PATHS": ",".join(engines),
        "RUNYARD__WORKING_DIRECTORY__WORKING_DIRECTORY": str(folder),
        "RUNYARD__WORKING_DIRECTORY__TEMP_DIRECTORY": str(folder / ".temp"),
    }
    if name != SHARED and _key_file(settings).exists():
        variables["RUNYARD__SEALING__KEYFILES"] = str(_key_file(settings))
    return Part(
        f"runner {name}",
        lambda: [*program, "run"],
        _is_running,
        environment=lambda: {**_inherited(), **variables},
        folder=PROJECT,
        stop_seconds=60,
    )


def activity_part(settings: Settings, secrets: Secrets) -> Part:
    """Describe the process that keeps the demo's runners busy."""
    variables = {
        "RUNYARD_HOME": str(settings.home),
        "SUPABASE_URL": settings.url,
        "SUPABASE_PUBLISHABLE_KEY": secrets.publishable_key,
        "DEMO_EMAIL": DEMO_EMAIL,
        "DEMO_PASSWORD": secrets.demo_password,
    }
    return Part(
        "demo",
        lambda: [sys.executable, "-m", "cli.launcher.demo.activity"],
        _is_running,
        environment=lambda: {**_inherited(), **variables},
        folder=PROJECT,
    )


async def _is_running() -> bool:
    """A runner shows its own health on the page; here it only has to be there."""
    return True


def _inherited() -> dict[str, str]:
    """The machine's environment without anybody else's project or runner in it."""
    foreign = ("SUPABASE_", "WORKER_", "RUNYARD_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "PYTHONUNBUFFERED": "1"}
