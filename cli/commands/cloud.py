"""`runyard cloud`: cloud identities, and runners that are deployed with them."""

import re
from typing import Annotated, Any

from typer import Argument, Option

from cli.command import Here, RunnerName, Yes, command, from_json, given, new_app, pairs

app = new_app("Cloud identities, and runners that are deployed with them.")
identities = new_app("Where cloud-hosted runners are deployed: a role to assume, and regions.")
app.add_typer(identities, name="identities")

Identity = Annotated[str, Argument(metavar="IDENTITY", help="Its name or id.")]
Role = Annotated[str | None, Option("--role-arn", help="The role that runners' jobs assume.")]
AccountId = Annotated[str | None, Option("--account-id", help="The account's 12 digits.")]
Regions = Annotated[list[str] | None, Option("--region", help="May be repeated.")]
Network = Annotated[str | None, Option("--network", help='JSON, such as {"create_vpc": true}.')]
Options = Annotated[list[str] | None, Option("--set", metavar="FIELD=JSON", help="Such as cpu=1024 or memory=2048.")]
COLUMNS = ("name", "account_id", "regions", "verified_at", "verification_error", "id")
PAGE = "Settings → Connections → Clouds of runners"


@command(identities, "list", page=PAGE)
def list_identities(here: Here) -> None:
    """List the cloud identities."""
    rows = here.api.all_rows("cloud_identities", org_id=f"eq.{here.org.id}", removed_at="is.null", order="name")
    here.printer.rows(rows, COLUMNS, "No cloud identities.")


@command(identities, "create", calls=("create_cloud_identity",), page=f"{PAGE} → Add")
def create(
    here: Here,
    name: Annotated[str, Argument(help="A name that no other identity has.")],
    role_arn: Role = None,
    account_id: AccountId = None,
    region: Regions = None,
    network: Network = None,
) -> None:
    """Add a place to deploy runners to."""
    spec = {"name": name, **_spec(role_arn, account_id, region, network)}
    here.do("create_cloud_identity", "{name}  {id}  external id {external_id}", org=here.org.id, spec=spec)


@command(identities, "update", calls=("update_cloud_identity",), page=f"{PAGE} → Edit")
def update(
    here: Here,
    identity: Identity,
    name: Annotated[str | None, Option("--name", help="Another name.")] = None,
    role_arn: Role = None,
    account_id: AccountId = None,
    region: Regions = None,
    network: Network = None,
) -> None:
    """Change what is named."""
    spec = _spec(role_arn, account_id, region, network) | ({"name": name} if name else {})
    here.do("update_cloud_identity", "{name}  {id}", identity=here.org.cloud_identity(identity)["id"], spec=spec)


@command(identities, "verify", calls=("verify_cloud_identity",), page=f"{PAGE} → Verify")
def verify(here: Here, identity: Identity) -> None:
    """Queue the job that tries an identity in all of its regions."""
    tried = here.api.call("verify_cloud_identity", identity=here.org.cloud_identity(identity)["id"])
    here.printer.result(tried["job"], lambda made: f"job {made['number']}  {made['status']}")


@command(identities, "remove", calls=("remove_cloud_identity",), page=f"{PAGE} → Remove")
def remove(here: Here, identity: Identity, yes: Yes = False) -> None:
    """Remove an identity that no runner uses."""
    row = here.org.cloud_identity(identity)
    here.confirm(f"Remove the cloud identity {row['name']}?", yes)
    here.do("remove_cloud_identity", lambda _: f"Removed {row['name']}", identity=row["id"])


@command(app, "deploy", calls=("deploy_worker",), page="Runners → Deploy runner")
def deploy(
    here: Here,
    name: Annotated[str, Argument(help="The runner's name; an existing one is deployed again.")],
    identity: Annotated[str, Option("--identity", help="The cloud identity's name or id.")],
    region: Annotated[str, Option("--region", help="One of the identity's regions.")],
    task_role: Annotated[str | None, Option("--task-role", help="ARN of the role that jobs act with.")] = None,
    image: Annotated[str | None, Option("--image", help="Another image than the deploying runner's.")] = None,
    version: Annotated[str | None, Option("--version", help="Another version than the newest release.")] = None,
    count: Annotated[int | None, Option("--count", min=0, max=1000, help="How many tasks.")] = None,
    options: Options = None,
) -> None:
    """Deploy a cloud-hosted runner: its role, image, version and number of tasks may be given."""
    where = here.org.cloud_identity(identity)["id"]
    named = given(task_role_arn=task_role, image=image, version=version, desired_count=count)
    here.do(
        "deploy_worker",
        lambda done: f"job {done['job']['number']}  deploys {name}",
        org=here.org.id,
        name=name,
        cloud_identity=where,
        region=region,
        options=_fields(options) | named,
    )


@command(app, "scale", calls=("update_worker",), page="Runner → Scaling")
def scale(here: Here, runner: RunnerName, options: Options = None) -> None:
    """Change how a cloud-hosted runner scales, or show what was decided about it."""
    row = here.org.runner(runner)
    if options:
        here.do("update_worker", "{name}  {id}", worker=row["id"], options=_fields(options))
        return
    found = here.api.rows("scaling_decisions", worker_id=f"eq.{row['id']}", order="id.desc", limit="50")
    here.printer.rows(found, ("at", "from_count", "to_count", "reason"), "Nothing was decided yet.")


def _spec(
    role_arn: str | None, account_id: str | None, regions: list[str] | None, network: str | None
) -> dict[str, Any]:
    made = from_json(network, "--network") if network else None
    return given(role_arn=role_arn, account_id=account_id, regions=regions or None, network=made)


# Texts that are values of another type: numbers, true, false, null, lists, objects and quoted texts.
LIKE_JSON = re.compile(r"[\[{\"]|(-?\d+(\.\d+)?|true|false|null)$")


def _fields(texts: list[str] | None) -> dict[str, Any]:
    found = pairs(texts, "Write --set cpu=1024.")
    return {name: from_json(text, name) if LIKE_JSON.match(text) else text for name, text in found.items()}
