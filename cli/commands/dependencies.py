"""`runyard dependencies`: which module depends on which, and which outputs become whose inputs."""

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from cli.command import AnyPath, Here, Yes, command, new_app, pairs
from cli.errors import Refused, Usage
from cli.output import say

app = new_app("Which module depends on which, and what it takes of it.")
Module = Annotated[str, Argument(metavar="MODULE", help="The module that depends on the other.")]
Producer = Annotated[str, Argument(metavar="PRODUCER", help="The module that goes first.")]
CARD = "Module → Dependencies"
CASCADES = {"off": "off", "on-change": "on_change", "always": "always"}
KEYS = ("consumer", "producer", "bindings", "cascades", "is_promotion")


@command(app, "list", calls=("list_dependencies",), page=CARD)
def list_dependencies(here: Here, path: AnyPath = "") -> None:
    """List dependencies with their bindings; a changed input is one that the consumer was not applied with."""
    found = here.api.call("list_dependencies", org=here.org.id, path=path.strip("/"))
    changed = {row["id"]: row["changed_inputs"] for row in found["modules"]}
    rows = [
        {
            **row,
            "changed": [name for name in changed.get(row["consumer_id"], []) if name in row["bindings"]],
            "inputs": [f"{name}={output}" for name, output in sorted(row["bindings"].items())],
        }
        for row in found["dependencies"]
    ]
    columns = ("consumer", "producer", "inputs", "changed", "cascades", "is_promotion")
    here.printer.rows(rows, columns, "No dependencies. `runyard dependencies add` makes one.")


@command(app, "proposals", calls=("list_dependencies", "set_dependency"), page=f"{CARD} → Proposed")
def proposals(
    here: Here,
    path: AnyPath = "",
    accept: Annotated[bool, Option("--accept", help="Add all of them as dependencies.")] = False,
) -> None:
    """List modules whose code reads another's outputs (terraform_remote_state, Terragrunt) without depending on it."""
    rows = here.api.call("list_dependencies", org=here.org.id, path=path.strip("/"))["proposals"]
    shown, refused = [], []
    for row in rows:
        ends = {"consumer": row["consumer_id"], "producer": row["producer_id"]}
        try:
            if accept:
                here.api.call("set_dependency", **ends, options={"bindings": row["bindings"]})
        except Refused as error:
            # One that closes a cycle keeps no other away.
            refused.append(str(error))
            continue
        shown.append({**row, "inputs": [f"{name}={output}" for name, output in sorted(row["bindings"].items())]})
    here.printer.rows(shown, ("consumer", "producer", "inputs"), "No proposals.")
    if refused:
        raise Refused("\n".join(refused))


@command(app, "add", calls=("set_dependency",), page=f"{CARD} → Add")
def add(
    here: Here,
    module: Module,
    producer: Producer,
    bind: Annotated[
        list[str] | None, Option("--bind", metavar="INPUT=OUTPUT", help="An output that becomes an input.")
    ] = None,
    unbind: Annotated[list[str] | None, Option("--unbind", metavar="INPUT", help="Remove a binding.")] = None,
    cascade: Annotated[
        str | None, Option("--cascade", help="Plan MODULE after an apply of PRODUCER: off, on-change or always.")
    ] = None,
    promotion: Annotated[
        bool | None,
        Option("--same-commit/--any-commit", help="Apply MODULE only with the commit that PRODUCER was applied with."),
    ] = None,
) -> None:
    """Add a dependency between modules, or change its bindings."""
    if cascade is not None and cascade not in CASCADES:
        raise Usage(f'"{cascade}" is no way to cascade.', "Write off, on-change or always.")
    options = {
        "bindings": {**pairs(bind, "Write --bind INPUT=OUTPUT.", "a binding"), **dict.fromkeys(unbind or [])},
        **({"cascades": CASCADES[cascade]} if cascade else {}),
        **({} if promotion is None else {"is_promotion": promotion}),
    }
    ends = {"consumer": here.org.module(module)["id"], "producer": here.org.module(producer)["id"]}
    here.do("set_dependency", "{consumer} depends on {producer}.", **ends, options=options)


@command(app, "remove", calls=("remove_dependency",), page=f"{CARD} → Remove")
def remove(here: Here, module: Module, producer: Producer) -> None:
    """Remove a dependency with its bindings."""
    ends = {"consumer": here.org.module(module)["id"], "producer": here.org.module(producer)["id"]}
    here.do("remove_dependency", "{consumer} no longer depends on {producer}.", **ends)


@command(app, "import", calls=("replace_dependencies",), page="Modules → Graph")
def import_file(
    here: Here,
    file: Annotated[Path, Argument(help="TOML with [[dependency]] tables, or what `list --json` printed.")],
    path: Annotated[str, Option("--path", help="Of the modules at and below it; of all without.")] = "",
    yes: Yes = False,
) -> None:
    """Replace the dependencies of a group, or of all modules, by those in a file; all or nothing."""
    rows = read_dependencies(file)
    where = path.strip("/")
    here.confirm(f"Replace the dependencies of {where or 'all modules'} by {len(rows)} from {file.name}?", yes)
    done = here.api.call("replace_dependencies", org=here.org.id, path=where, dependencies=rows)
    here.printer.result(done, lambda row: f"{row['now']} dependencies, {row['before']} before.")


def read_dependencies(file: Path) -> list[dict[str, Any]]:
    """The dependencies in a file of TOML or JSON."""
    try:
        text = file.read_text(encoding="utf-8")
        found = json.loads(text) if file.suffix == ".json" else tomllib.loads(text).get("dependency", [])
    except (OSError, ValueError) as error:
        raise Usage(
            f"{file} cannot be read: {error}.", "Write [[dependency]] tables with consumer and producer."
        ) from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Usage(f"{file} has no list of dependencies.", "Write [[dependency]] tables with consumer and producer.")
    say(f"{len(found)} dependencies in {file.name}.")
    return [{key: each[key] for key in KEYS if key in each} for each in found]
