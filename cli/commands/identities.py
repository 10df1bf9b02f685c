"""`runyard identities`: who jobs are in a cloud, without a stored key."""

from typing import Annotated, Any

import typer
from typer import Argument, Option

from cli.client.issuer import check_served, project_documents
from cli.command import Here, Place, Yes, command, given, new_app, pairs
from cli.errors import CommandError, Usage, first
from cli.jobs.follow import ENDS, call_keyed
from cli.jobs.waiting import follow

app = new_app("Identities of jobs in a cloud, without a stored key.")
Name = Annotated[str, Argument(metavar="NAME", help="aws, gcp, azure, vault, kubernetes, or a custom one's own.")]
Phase = Annotated[str, Option("--phase", help="plan or apply.")]
COLUMNS = ("path", "name", "kind", "audience", "settings")


@command(app, "list", page="Job identities")
def list_identities(here: Here) -> None:
    """List the identities and the modules or groups that they are attached to."""
    rows = here.api.all_rows("job_identities", org_id=f"eq.{here.org.id}", order="path,name")
    here.printer.rows(rows, COLUMNS, "No identities.")


@command(app, "attach", calls=("attach_identity",), page="Job identities → Attach identity")
def attach(
    here: Here,
    path: Place,
    kind: Annotated[str, Argument(metavar="KIND", help="aws, gcp, azure, vault, kubernetes or custom.")],
    name: Annotated[str | None, Option("--name", help="The name of a custom one.")] = None,
    audience: Annotated[str | None, Option("--audience", help="Another audience than the usual one.")] = None,
    role: Annotated[str | None, Option("--role", help="One role for plan and apply.")] = None,
    plan_role: Annotated[str | None, Option("--plan-role", help="The role of plans.")] = None,
    apply_role: Annotated[str | None, Option("--apply-role", help="The role of applies.")] = None,
    settings: Annotated[
        list[str] | None, Option("--set", metavar="FIELD=VALUE", help="Such as region=eu-west-1.")
    ] = None,
) -> None:
    """Attach an identity to a module or group, or change the one of that name there."""
    roles = {"plan_role": plan_role or role, "apply_role": apply_role or role}
    fields = {field: value for field, value in roles.items() if value}
    fields |= pairs(settings, "Write --set region=eu-west-1.")
    known = given(kind=kind, name=name, audience=audience, settings=fields)
    made = here.api.call("attach_identity", org=here.org.id, path=path.strip("/"), spec=known)
    here.printer.result(made, lambda row: f"{row['name']}  {row['path'] or 'all modules'}  audience {row['audience']}")


@command(app, "detach", calls=("detach_identity",), page="Job identities → Detach")
def detach(here: Here, path: Place, name: Name, yes: Yes = False) -> None:
    """Detach an identity: running jobs get no further token for it."""
    row = _find(here, path.strip("/"), name)
    here.confirm(f"Detach {name} from {row['path'] or 'all modules'}?", yes)
    done = here.api.call("detach_identity", job_identity=row["id"])
    here.printer.result(done, lambda gone: f"Detached {gone['name']} from {gone['path'] or 'all modules'}")


@command(app, "policy", calls=("identity_trust_policies",), page="Job identities → Edit and trust policy")
def policy(here: Here, path: Place, phase: Phase = "apply") -> None:
    """Print the trust policy of the AWS role that is attached to a module or group."""
    row = _find(here, path.strip("/"), "aws")
    issuer = project_documents(here.api).issuer
    policies = here.api.call("identity_trust_policies", job_identity=row["id"], issuer=issuer)
    here.printer.document(policies[_phase(phase)])


@command(app, "subject", calls=("set_identity_subject",), page="")
def set_subject(
    here: Here,
    template: Annotated[
        str | None, Argument(help='Names of claims in braces, such as {module}; "" for the usual one.')
    ] = None,
) -> None:
    """Show or set how the sub claim of tokens is made."""
    if template is None:
        here.printer.result({"template": _template(here)}, lambda row: str(row["template"]))
        return
    made = here.api.call("set_identity_subject", org=here.org.id, template=template or None)
    here.printer.result(made, lambda row: f"Subject {row['template']}. Change the trust policies of your clouds, too.")


@command(app, "test", calls=("preview_identities", "enqueue_job"), page="Job identities → Test")
def check(
    here: Here,
    module: Annotated[str, Argument(metavar="MODULE", help="A module's path or id.")],
    phase: Phase = "plan",
    exchange: Annotated[
        bool, Option("--exchange", help="Exchange the tokens of the plan phase on a runner, and print the answers.")
    ] = False,
) -> None:
    """Show the token that a module's next job would get, and check that clouds can read the issuer's keys."""
    found = here.org.module(module)["id"]
    if exchange:
        _exchange(here, found)
    shown = here.api.call("preview_identities", module=found, type=_phase(phase).upper())
    documents = project_documents(here.api)
    problems = check_served(documents)
    shown = {"issuer": documents.issuer, **shown, "problems": problems}
    here.printer.result(shown, _describe)
    if problems or not shown["identities"]:
        why = problems[0] if problems else f"{module} has no identity."
        raise CommandError(why, "docs/identity.md describes what a cloud must be able to read.")


def _exchange(here: Here, module: str) -> None:
    options = {"test_identities": True}
    job = call_keyed(here.api, "enqueue_job", options, None, org=here.org.id, type="OUTPUT", module=module)
    (done,) = follow(here, [job])
    answers = (done["result"] or {}).get("identities", {})
    here.printer.result(answers, lambda found: "\n".join(f"{name}  {answer}" for name, answer in found.items()))
    raise typer.Exit(int(ENDS[done["status"]]))


def _describe(shown: dict[str, Any]) -> str:
    identities = [f"{each['name']} from {each['path'] or 'the organisation'}" for each in shown["identities"]]
    claims = [f"{name}  {value}" for name, value in sorted(shown["claims"].items())]
    lines = [f"issuer  {shown['issuer']}", f"identities  {', '.join(identities) or 'none'}", *claims]
    return "\n".join([*lines, *(f"problem  {each}" for each in shown["problems"])])


def _template(here: Here) -> str:
    rows = here.api.rows("identity_subjects", org_id=f"eq.{here.org.id}")
    return str(rows[0]["template"]) if rows else "organization:{organization_id}:module:{module}:phase:{phase}"


def _find(here: Here, path: str, name: str) -> dict[str, Any]:
    found = here.api.rows("job_identities", org_id=f"eq.{here.org.id}", path=f"eq.{path}", name=f"eq.{name}")
    return first(found, f'There is no identity {name} at "{path}".', "`runyard identities list` shows all of them.")


def _phase(text: str) -> str:
    if text not in ("plan", "apply"):
        raise Usage(f'"{text}" is not a phase.', "Write plan or apply.")
    return text
