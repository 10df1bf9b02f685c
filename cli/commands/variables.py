"""`runyard variables`: inputs, environment and files of jobs, at a module, a group or the organisation."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from cli.client.organization import Row
from cli.command import Here, Place, Yes, command, new_app, read_text
from cli.errors import CommandError, Usage, first
from cli.output import say
from cli.variables import sealing
from cli.variables.files import FIELDS, given_inputs, given_pairs, read_variables

app = new_app("Inputs, environment and files of jobs, at a module, a group or the organisation.")
Enforced = Annotated[bool, Option("--enforced", help="Wins over paths below and over the run's own. Admins.")]
Pairs = list[str] | None
PAGE = "Variables"
COLUMNS = ("path", "kind", "name", "value", "is_enforced", "version", "created_by_label", "created_at")


@command(app, "list", calls=("list_variables",), page=PAGE)
def list_variables(
    here: Here, path: Annotated[str | None, Argument(metavar="PATH", help="Only those set there.")] = None
) -> None:
    """List the variables that are set, each where it is set."""
    rows = [{**row, "value": _shown(row)} for row in _current(here, path)]
    here.printer.rows(rows, COLUMNS, "No variables.", cut=("value",))


@command(app, "set", calls=("set_variables",), page="Variables → Add variable")
def set_variables(
    here: Here,
    path: Place,
    inputs: Annotated[Pairs, Argument(metavar="NAME=VALUE…", help="Inputs; [ and { begin JSON.")] = None,
    env: Annotated[Pairs, Option("--env", metavar="NAME=VALUE", help="An environment variable.")] = None,
    hcl: Annotated[Pairs, Option("--hcl", metavar="NAME=EXPRESSION", help="An input as HCL.")] = None,
    file: Annotated[
        Pairs, Option("--file", metavar="NAME=FILE", help="A file for the module's folder, from this machine.")
    ] = None,
    enforced: Enforced = False,
) -> None:
    """Set variables; a new value concerns later jobs."""
    given = [{"kind": "input", "name": name, "value": value} for name, value in given_inputs(inputs or []).items()]
    given += [{"kind": "env", "name": name, "value": value} for name, value in given_pairs(env or []).items()]
    for name, value in given_pairs(hcl or []).items():
        given.append({"kind": "input", "name": name, "value": value, "is_hcl": True})
    for name, place in given_pairs(file or []).items():
        given.append({"kind": "file", "name": name, "value": read_text(Path(place))})
    if not given:
        raise Usage("Which variable?", "Write region=eu-west-1, or --env, --hcl or --file.")
    _set(here, path, given, enforced)


@command(app, "seal", calls=("set_variables",), page="Variables → Add variable → Sensitive")
def seal(
    here: Here,
    path: Place,
    name: Annotated[str, Argument(metavar="NAME")],
    kind: Annotated[str, Option("--kind", help="input, env or file.")] = "input",
    source: Annotated[Path | None, Option("--from", help="Read the value from this file.")] = None,
    hcl: Annotated[bool, Option("--hcl", help="The value is an HCL expression.")] = False,
    enforced: Enforced = False,
) -> None:
    """Set a secret that only runners with the organisation's key can read; the value is typed, piped, or in a file."""
    key = sealing.current_key(here.org)
    text = read_text(source) if source else _typed(name)
    value = given_inputs([f"{name}={text}"])[name] if kind == "input" and not hcl else text
    _set(here, path, [sealing.seal(key, (path.strip("/"), kind, name, hcl), value)], enforced)


@command(app, "refer", calls=("set_variables",), page="Variables → Add variable")
def refer(
    here: Here,
    path: Place,
    name: Annotated[str, Argument(metavar="NAME")],
    source: Annotated[str, Argument(help="vault://PATH#FIELD, aws-sm://REGION/NAME#FIELD or file:///PATH.")],
    kind: Annotated[str, Option("--kind", help="input, env or file.")] = "input",
    enforced: Enforced = False,
) -> None:
    """Set a variable whose value the runner reads from a vault; only its address is stored."""
    _set(here, path, [{"kind": kind, "name": name, "value": source, "is_reference": True}], enforced)


@command(app, "create-key", calls=("create_sealing_key",), page="Variables → Add variable → Sensitive")
def create_key(
    here: Here, file: Annotated[Path, Argument(help="A new file for the private key. Keep a copy offline.")]
) -> None:
    """Make the key that secrets are sealed to; what older keys sealed stays until `reseal`."""
    public = sealing.write_new_key(file)
    try:
        made = here.api.call("create_sealing_key", org=here.org.id, public_key=public)
    except CommandError:
        # A key that the project does not know seals nothing.
        file.unlink()
        raise
    say(f"{file} is the only copy of the private key: without it, every sealed value has to be entered again.")
    say(f"Give it to runners (Sealing.KeyFiles), and give those runners the label {made['label']}.")
    here.printer.result(made, lambda row: f"Key {row['id']}  label {row['label']}")


@command(app, "reseal", calls=("list_variables", "set_variables"), page="")
def reseal(here: Here, file: Annotated[Path, Argument(help="The file of the key that they are sealed to.")]) -> None:
    """Seal every secret of an older key to the current one."""
    key = sealing.current_key(here.org)
    rows = here.api.call("list_variables", org=here.org.id, with_sealed=True)
    older = [row for row in rows if row["key_id"] not in (None, key["id"])]
    done = [(row["path"], _fields(row) if row["is_reference"] else sealing.reseal(file, row, key)) for row in older]
    for path, variable in done:
        here.api.call("set_variables", org=here.org.id, path=path, variables=[variable])
    here.printer.result(
        [{"path": path, "name": each["name"]} for path, each in done], lambda rows: f"Resealed {len(rows)}."
    )


@command(app, "remove", calls=("remove_variable",), page="Variables → Remove")
def remove(
    here: Here,
    path: Place,
    name: Annotated[str, Argument(metavar="NAME")],
    kind: Annotated[str, Option("--kind", help="input, env or file.")] = "input",
    yes: Yes = False,
) -> None:
    """Remove a variable from the place where it is set; jobs that are queued keep it."""
    found = _find(here, path, kind, name)
    here.confirm(f"Remove {name} from {_place(found)}?", yes)
    here.do("remove_variable", lambda row: f"Removed {row['name']} from {_place(row)}", variable=found["id"])


@command(app, "import", calls=("set_variables",), page="Variables → Add variable")
def import_variables(
    here: Here,
    path: Place,
    file: Annotated[Path, Argument(help=".tfvars, .tfvars.json, HCP's JSON, or what `export` wrote.")],
    enforced: Enforced = False,
) -> None:
    """Set every variable of a file."""
    given = read_variables(file)
    if not given:
        raise Usage(f"{file} has no variables.")
    _set(here, path, given, enforced)


@command(app, "export", calls=("list_variables",), page=PAGE)
def export(here: Here, path: Place) -> None:
    """Print the variables that are set at a path as JSON, which `import` reads."""
    rows = _current(here, path)
    if sealed := [row["name"] for row in rows if _is_sealed(row)]:
        say(f"Left out, since they are sealed: {', '.join(sealed)}")
    here.printer.document([_fields(row) for row in rows if not _is_sealed(row)])


@command(app, "effective", calls=("preview_variables", "list_job_variables"), page=PAGE)
def effective(
    here: Here,
    path: Annotated[str, Argument(metavar="PATH", help="A module or group.")] = "",
    job: Annotated[str | None, Option("--job", help="Of this job: names and versions, without values.")] = None,
) -> None:
    """Show the variables that the next job gets, where each comes from, and what it hides."""
    if job is not None:
        rows = here.api.call("list_job_variables", job=here.org.job(job)["id"])
        here.printer.rows([{**row, "from": _source(row)} for row in rows], ("kind", "name", "from", "version"), "None.")
        return
    rows = here.api.call("preview_variables", org=here.org.id, path=path.strip("/"))
    if here.printer.as_json:
        here.printer.document(rows)
        return
    shown = [
        {**row, "value": _shown(row), "from": _source(row), "hides": [_source(each) for each in row["hides"]],
         "last_used": _last_use(row)}
        for row in rows
    ]  # fmt: skip
    columns = ("kind", "name", "value", "from", "version", "hides", "last_used")
    here.printer.rows(shown, columns, "No variables.", cut=("value",))


@command(app, "unused", calls=("list_unused_variables",), page="Variables → Unused variables")
def unused(
    here: Here, days: Annotated[int, Option("--days", help="Not used for this many days.", min=0, max=400)] = 30
) -> None:
    """List the variables that no job has used for some time."""
    rows = here.api.call("list_unused_variables", org=here.org.id, days=days)
    shown = [{**row, "value": _shown(row), "last_used": _last_use(row)} for row in rows]
    here.printer.rows(shown, ("path", "kind", "name", "value", "last_used"), "None.", cut=("value",))


@command(app, "users", calls=("list_variable_users",), page="Variables → Who can use it")
def users(
    here: Here,
    path: Place,
    name: Annotated[str, Argument(metavar="NAME")],
    kind: Annotated[str, Option("--kind", help="input, env or file.")] = "input",
) -> None:
    """Show which modules' next jobs get a variable, and who can start them."""
    here.do("list_variable_users", _describe_users, variable=_find(here, path, kind, name)["id"])


def _describe_users(found: dict[str, Any]) -> str:
    members = [f"{each['email']} ({each['role']})" for each in found["members"]]
    lists = {**found, "members": members}
    return "\n".join(f"{what}  {', '.join(lists[what]) or 'none'}" for what in lists)


def _find(here: Here, path: str, kind: str, name: str) -> Row:
    found = [row for row in _current(here, path) if (row["kind"], row["name"]) == (kind, name)]
    return first(found, f'There is no {kind} "{name}" at "{path}".', "`runyard variables list` shows all of them.")


def _last_use(row: Row) -> str:
    use = row["last_use"]
    return f"#{use['number']} {use['used_at'][:16]}" if use else "never"


def _set(here: Here, path: str, given: list[dict[str, Any]], enforced: bool) -> None:
    variables = [{**each, "is_enforced": True} if enforced else each for each in given]
    made = here.api.call("set_variables", org=here.org.id, path=path.strip("/"), variables=variables)
    for row in made:
        if row["warning"]:
            say(f"{row['name']}: {row['warning']} Every member can read it. Seal secrets: runyard variables seal.")
    here.printer.result(
        made, lambda rows: "\n".join(f"{_place(row)}  {row['name']}  v{row['version']}" for row in rows)
    )


def _current(here: Here, path: str | None) -> list[Row]:
    rows: list[Row] = here.api.call("list_variables", org=here.org.id, path=None if path is None else path.strip("/"))
    return rows


def _typed(name: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.read().removesuffix("\n")
    value: str = typer.prompt(f"Value of {name}", hide_input=True)
    return value


def _fields(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in FIELDS}


def _is_sealed(row: Row) -> bool:
    return bool(row["key_id"]) and not row["is_reference"]


def _shown(row: Row) -> Any:
    return "(sealed)" if _is_sealed(row) else row["value"]


def _place(row: Row) -> str:
    return row["path"] or "the organisation"


def _source(row: Row) -> str:
    if row["path"] is None:
        return "the run"
    return f"{_place(row)} (enforced)" if row["is_enforced"] else _place(row)
