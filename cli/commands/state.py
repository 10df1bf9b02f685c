"""`runyard state`: the state of a module, and how it comes here and leaves again."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer import Argument, Option

from cli.client.organization import Row
from cli.command import Here, ModuleName, OnlyRunner, Yes, command, new_app, read_text
from cli.errors import NotFound, Usage
from cli.jobs.follow import ENDS, call_keyed
from cli.jobs.waiting import follow
from cli.modules.states import Words, brought_words, change_words, changed_words, evidence, resources_of
from cli.output import say

app = new_app("The state of a module: import, read and export it.")

NoWait = Annotated[bool, Option("--no-wait", help="Queue it, and do not follow it.")]


@command(app, "versions", calls=("state_info",), page="Module → State")
def versions(here: Here, module: ModuleName) -> None:
    """List the versions of a state, the newest first, and who holds its lock."""
    info = here.api.call("state_info", module=here.org.module(module)["id"])
    if here.printer.as_json:
        here.printer.document(info)
        return
    here.printer.rows(info["versions"], ("serial", "size", "job_number", "created_at", "sha256"), "No state yet.")
    if lock := info["lock"]:
        say(f"Locked by job {lock['job_number']} since {lock['created_at']}: lock {lock['id']}")


@command(app, "pull", calls=("state_info", "state_version"), page="Module → State → Download")
def pull(
    here: Here,
    module: ModuleName,
    serial: Annotated[int | None, Option("--serial", help="An older version than the newest.")] = None,
) -> None:
    """Print a state's text; reading it is written down in the audit log."""
    print(_newest(here, here.org.module(module), serial)["body"])


@command(app, "push", calls=("push_state",), page="Module → State")
def push(
    here: Here,
    module: ModuleName,
    file: Annotated[Path, Argument(help="A state file; - reads the standard input.")],
    yes: Yes = False,
) -> None:
    """Store a state file as the newest version of a module's state; it changes no infrastructure."""
    row = here.org.module(module)
    text = sys.stdin.read() if str(file) == "-" else read_text(file)
    here.confirm(f"Make {file} the newest state of {row['path']}?", yes)
    here.do("push_state", "Stored as serial {serial}.", module=row["id"], body=text)


@command(app, "import", calls=("enqueue_job",), page="Module → ⋯ → Bring in state; State versions → Change")
def bring_in(
    here: Here,
    module: ModuleName,
    address: Annotated[str | None, Argument(help="Import one resource under this address.")] = None,
    resource: Annotated[str | None, Argument(metavar="ID", help="What the provider calls that resource.")] = None,
    runner: OnlyRunner = None,
    no_wait: NoWait = False,
    yes: Yes = False,
) -> None:
    """Copy a state from the backend that the code names, and plan at once; or import one resource that exists."""
    row = here.org.module(module)
    if (address is None) != (resource is None):
        raise Usage("One resource needs an address and an id.", "runyard state import MODULE ADDRESS ID")
    if address is not None:
        _change(here, row, {"action": "import", "addresses": [address], "id": resource}, runner, no_wait, yes)
    _queue(here, row, "PLAN", {"bring_state": True}, runner, no_wait, brought_words)


@command(app, "mv", calls=("enqueue_job",), page="Module → State versions → Change")
def move(
    here: Here,
    module: ModuleName,
    source: Annotated[str, Argument(metavar="FROM", help="The address that it has.")],
    target: Annotated[str, Argument(metavar="TO", help="The address that it gets.")],
    to_module: Annotated[str | None, Option("--to-module", help="Move it into the state of this module.")] = None,
    runner: OnlyRunner = None,
    no_wait: NoWait = False,
    yes: Yes = False,
) -> None:
    """Give a resource another address, in this state or in another module's; no infrastructure is changed."""
    change: dict[str, Any] = {"action": "move", "addresses": [source], "to": target}
    change |= {"module": here.org.module(to_module)["id"]} if to_module else {}
    _change(here, here.org.module(module), change, runner, no_wait, yes)


@command(app, "rm", calls=("enqueue_job",), page="Module → State versions → Change")
def remove(
    here: Here,
    module: ModuleName,
    addresses: Annotated[list[str], Argument(help="Addresses as `state list` shows them.")],
    runner: OnlyRunner = None,
    no_wait: NoWait = False,
    yes: Yes = False,
) -> None:
    """Remove resources from a state; what they are in the world stays, and nobody manages it any more."""
    _change(here, here.org.module(module), {"action": "remove", "addresses": addresses}, runner, no_wait, yes)


@command(app, "keep-own", calls=("update_module",), page="Module → ⋯")
def keep_own(here: Here, module: ModuleName) -> None:
    """Keep the backend that the module's code names: Runyard runs the module, and stores no state of it."""
    row = here.org.module(module)
    here.api.call("update_module", module=row["id"], spec={"backend": "own"})
    here.printer.result({"backend": "own"}, lambda _: f"{row['path']} keeps its own backend.")


@command(app, "start-empty", calls=("update_module",), page="Module → ⋯")
def start_empty(here: Here, module: ModuleName, yes: Yes = False) -> None:
    """Begin with an empty state here although the module's code names a backend: existing resources are not known."""
    row = here.org.module(module)
    if not yes:
        _need_typed(row["path"])
    here.api.call("update_module", module=row["id"], spec={"backend": "runyard"})
    here.printer.result({"backend": "runyard"}, lambda _: f"{row['path']} starts with an empty state.")


@command(app, "list", calls=("state_resources",), page="Module → Resources")
def list_resources(
    here: Here, module: ModuleName, search: Annotated[str, Option("--search", help="Part of the address.")] = ""
) -> None:
    """List the resources that a module's state knows."""
    found = here.api.call("state_resources", module=here.org.module(module)["id"], search=search)
    here.printer.rows(found["resources"], ("address", "type", "id"), "The state has no such resources.")


@command(app, "show", calls=("state_info", "state_version"), page="Module → Resources")
def show(
    here: Here, module: ModuleName, address: Annotated[str | None, Argument(help="Only this resource.")] = None
) -> None:
    """Show the attributes of a state's resources, sensitive ones masked; reading it is written down in the audit log."""
    row = here.org.module(module)
    found = resources_of(json.loads(_newest(here, row, None)["body"]), address)
    if address is not None and not found:
        raise NotFound(
            f'The state of {row["path"]} has no "{address}".', f"`runyard state list {row['path']}` lists them."
        )
    here.printer.document(found)


@command(app, "rollback", calls=("roll_back_state",), page="Module → State → Roll back")
def rollback(
    here: Here,
    module: ModuleName,
    serial: Annotated[int, Argument(help="The version to go back to.")],
    yes: Yes = False,
) -> None:
    """Make an older version of a state the newest again; it changes no infrastructure."""
    row = here.org.module(module)
    here.confirm(f"Make serial {serial} the newest state of {row['path']}?", yes)
    done = here.api.call("roll_back_state", module=row["id"], serial=serial)
    here.printer.result(done, lambda said: f"Serial {serial} is the state again, as serial {said['serial']}.")


@command(app, "lock", calls=("lock_evidence",), page="Module → State → Lock")
def lock(here: Here, module: ModuleName) -> None:
    """Show who holds a state's lock, and whether it is safe to break."""
    here.do("lock_evidence", evidence, module=here.org.module(module)["id"])


@command(app, "unlock", calls=("state_info", "force_unlock_state"), page="Module → State → Unlock")
def unlock(
    here: Here,
    module: ModuleName,
    lock: Annotated[str, Argument(help="The lock's id, as `state versions` shows it.")],
    yes: Yes = False,
) -> None:
    """Release a state's lock that no running job holds."""
    row = here.org.module(module)
    here.confirm(f"Release the lock {lock} of {row['path']}?", yes)
    done = here.api.call("force_unlock_state", module=row["id"], lock_id=lock)
    here.printer.result(done, lambda said: f"Unlocked {row['path']}; job {said['job_number']} had it.")


Kept = Annotated[str, Argument(metavar="ID", help="The id that `state kept` shows.")]


@command(app, "kept", calls=("kept_states",), page="Job → State that was not stored")
def kept(here: Here, job: Annotated[int, Argument(metavar="JOB", help="The job's number.")]) -> None:
    """List the states of a job that were not stored, because somebody released it meanwhile."""
    rows = here.api.call("kept_states", job=job)
    here.printer.rows(
        rows, ("id", "attempt", "number", "serial", "size", "written_at", "stored_at", "discarded_at"), "None."
    )


@command(app, "kept-pull", calls=("kept_state",), page="Job → State that was not stored → Download")
def kept_pull(here: Here, kept: Kept) -> None:
    """Print a state that was not stored; reading it is written down in the audit log."""
    print(here.api.call("kept_state", id=kept)["body"])


@command(app, "kept-store", calls=("store_kept_state",), page="Job → State that was not stored → Store")
def kept_store(here: Here, kept: Kept, yes: Yes = False) -> None:
    """Make a state that was not stored the module's state."""
    here.confirm("Make it the module's newest state?", yes)
    here.do("store_kept_state", "Stored as serial {serial}.", id=kept)


@command(app, "kept-discard", calls=("discard_kept_state",), page="Job → State that was not stored → Discard")
def kept_discard(here: Here, kept: Kept, yes: Yes = False) -> None:
    """Remove the text of a state that was not stored."""
    here.confirm("Discard it? Its text is removed for good.", yes)
    here.do("discard_kept_state", "Discarded.", id=kept)


def _newest(here: Here, row: Row, serial: int | None) -> dict[str, Any]:
    newest = here.api.call("state_info", module=row["id"])["serial"]
    if newest is None:
        raise NotFound(f"{row['path']} has no state yet.", "An apply creates one.")
    version: dict[str, Any] = here.api.call(
        "state_version", module=row["id"], serial=newest if serial is None else serial
    )
    return version


def _need_typed(path: str) -> None:
    """Have the module's path typed: the next apply creates everything that its code describes."""
    if not sys.stdin.isatty():
        raise Usage("Somebody has to type the module's path.", "Add --yes if you are sure.")
    say("The next apply creates everything that the code describes, also what exists already.")
    if typer.prompt(f"Type {path} to start with an empty state") != path:
        raise Usage("That is not the module's path, so nothing was changed.")


def _change(here: Here, row: Row, change: dict[str, Any], runner: str | None, no_wait: bool, yes: bool) -> NoReturn:
    here.confirm(f"Change the state of {row['path']}: {change_words(change)}?", yes)
    _queue(here, row, "STATE", {"state_change": change}, runner, no_wait, changed_words)


def _queue(
    here: Here, row: Row, kind: str, options: dict[str, Any], runner: str | None, no_wait: bool, words: Words
) -> NoReturn:
    pin = {"pinned_worker_id": here.org.runner(runner)["id"]} if runner else {}
    job = call_keyed(here.api, "enqueue_job", options | pin, None, org=here.org.id, type=kind, module=row["id"])
    if no_wait:
        here.printer.rows([job], ("id", "type", "status", "module_path"))
        raise typer.Exit(0)
    (done,) = follow(here, [job])
    here.printer.result(done, words)
    raise typer.Exit(int(ENDS[done["status"]]))
