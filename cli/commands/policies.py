"""`runyard policies`: rules and commands that check plans."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from cli.command import Here, Place, Yes, command, given, new_app
from cli.errors import Usage, first
from cli.jobs.waiting import follow, worst_end
from cli.modules.repository import git_answer
from cli.output import say
from wire.checks import COMMAND_FILE, command_file

app = new_app("Attach rules and commands that plans must pass, and override their checks.")
Name = Annotated[str, Argument(metavar="NAME", help="The set's name.")]
Folder = Annotated[
    Path | None,
    Argument(metavar="FOLDER", help="A folder with .rego files, or with command.json and what it needs; or one file."),
]
Line = Annotated[
    str | None, Option("--command", help="A command instead of rules; it reads {plan}, writes to {results}.")
]
Network = Annotated[bool, Option("--network", help="The command may reach the network.")]
COLUMNS = ("path", "name", "level", "source", "bundle_sha256")
ENDINGS = (".rego", ".json", ".yaml", ".yml")
WORDS = {"deny": "refuses", "warn": "warns about", "unclear": "cannot judge"}
LARGEST_BYTES = 1024 * 1024


@command(app, "list", page="Policies")
def list_policies(here: Here) -> None:
    """List the policy sets and the modules or groups that they are attached to."""
    rows = here.api.all_rows("policy_sets", org_id=f"eq.{here.org.id}", order="path,name")
    here.printer.rows(rows, COLUMNS, "No policy sets.")


@command(app, "attach", calls=("attach_policy",), page="Policies → Add policy set")
def attach(
    here: Here,
    path: Place,
    name: Name,
    folder: Folder = None,
    level: Annotated[str, Option("--level", help="advisory, overridable or mandatory.")] = "advisory",
    line: Line = None,
    network: Network = False,
) -> None:
    """Attach the rules of a folder, or a command, to a module or group; or change the set of that name there."""
    files = read_set(folder, line, has_network=network)
    spec = given(name=name, level=level, files=files, source=source_of(folder) if folder else "")
    made = here.api.call("attach_policy", org=here.org.id, path=path.strip("/"), spec=spec)
    here.printer.result(made, lambda row: f"{row['name']}  {row['path'] or 'all modules'}  {row['level']}")


@command(app, "test", calls=("test_policy", "policy_test"), page="Policies → Add policy set → Back-test; Job")
def back_test(
    here: Here,
    folder: Folder = None,
    against: Annotated[str, Option("--against", help="The plans of so many days, at most 30d.")] = "30d",
    path: Annotated[str, Option("--path", help="Only plans at and below this module or group.")] = "",
    name: Annotated[str | None, Option("--name", help="The set's name; without it, the folder's.")] = None,
    line: Line = None,
    network: Network = False,
) -> None:
    """Run a set on a runner over the plans of the last days, and show which jobs it would have refused."""
    spec = {
        "name": (name or (folder.resolve().stem if folder else "command"))[:63], "days": _days(against),
        "files": read_set(folder, line, has_network=network), "source": source_of(folder) if folder else "",
    }  # fmt: skip
    job = here.api.call("test_policy", org=here.org.id, path=path.strip("/"), spec=spec)
    say(f"Job {job['number']} tests the rules.")
    (ended,) = follow(here, [job])
    here.printer.result(here.api.call("policy_test", job=job["id"]), lambda found: "\n".join(report_lines(found)))
    if ended["status"] != "SUCCEEDED":
        raise Exit(worst_end([ended]))


@command(app, "detach", calls=("detach_policy",), page="Policies → Detach")
def detach(here: Here, path: Place, name: Name, yes: Yes = False) -> None:
    """Detach a policy set; plans that were requested before are still checked with it."""
    row = _find(here, path.strip("/"), name)
    here.confirm(f"Detach {name} from {row['path'] or 'all modules'}?", yes)
    done = here.api.call("detach_policy", policy=row["id"])
    here.printer.result(done, lambda gone: f"Detached {gone['name']} from {gone['path'] or 'all modules'}")


@command(app, "show", calls=("policy_files",), page="Policies → Edit")
def show(here: Here, path: Place, name: Name) -> None:
    """Print the rules of a policy set."""
    files = here.api.call("policy_files", policy=_find(here, path.strip("/"), name)["id"])
    here.printer.result(files, lambda found: "\n".join(f"# {each}\n{text}" for each, text in sorted(found.items())))


@command(app, "override", calls=("override_check",), page="Job → Checks → Override check")
def override(
    here: Here,
    job: Annotated[int, Argument(metavar="JOB", help="The job's number.")],
    name: Name,
    reason: Annotated[str, Option("--reason", help="Why its plan may pass all the same.")],
) -> None:
    """Override a check that a job's plan failed."""
    jobs = here.api.rows("provision_jobs", org_id=f"eq.{here.org.id}", number=f"eq.{job}", order="id.desc")
    ids = ",".join(str(each["id"]) for each in jobs)
    checks = here.api.rows("policy_checks", job_id=f"in.({ids})", name=f"eq.{name}") if ids else []
    check = first(checks, f"Job {job} has no check {name}.", "`runyard policies list` shows the sets.")
    done = here.api.call("override_check", job=jobs[0]["id"], policy=check["set_id"], reason=reason)
    here.printer.result(done, lambda row: f"Overrode {row['name']} for job {job}")


def report_lines(found: dict[str, Any]) -> Iterator[str]:
    """Put the result of a test into lines: the counts, then each rule with what it found."""
    yield (
        f"{found['total']} plans of {found['modules']} modules: {found['passed']} would pass, {found['refused']} would be refused"
        f" ({found['applied']} of them were applied), {found['unclear']} are unclear, {found['missing']} could not be tested."
    )
    for rule in found["rules"]:
        word = WORDS[rule["kind"]]
        yield f"\n{rule['rule'] or 'The set'} {word} {rule['plans']} plans of {rule['modules']} modules"
        for item in rule["items"]:
            outcome = (item["outcome"] or "not applied").lower().replace("_", " ")
            yield f"  #{item['number']}  {item['module_path']}  {item['resource']}  {item['text']}  ({outcome})"
        if rule["plans"] > len(rule["items"]):
            yield f"  and {rule['plans'] - len(rule['items'])} more"


def _days(text: str) -> int:
    found = re.fullmatch(r"(\d{1,2})d?", text)
    if not found:
        raise Usage(f'"{text}" is not a number of days.', "Such as 30d or 7d.")
    return int(found[1])


def read_set(folder: Path | None, line: str | None, *, has_network: bool = False) -> dict[str, str]:
    """Read the files of a set: a folder, a command, or a command and the folder that it needs."""
    if line is None:
        if folder is None or has_network:
            raise Usage("A set is a folder or a command.", "Name a folder, or write --command.")
        return read_files(folder)
    try:
        command = command_file(line, has_network=has_network)
    except ValueError as error:
        raise Usage("The command has a quote without an end.", "Quote it once more.") from error
    return {**(read_files(folder, is_for_command=True) if folder else {}), **command}


def read_files(folder: Path, *, is_for_command: bool = False) -> dict[str, str]:
    """Read the rules and data of a folder, or one file of rules; of a command all files that are not hidden."""
    root = folder if folder.is_dir() else folder.parent
    found = sorted(folder.rglob("*")) if folder.is_dir() else [folder]
    names = [each for each in found if each.is_file() and not each.is_symlink()]
    if is_for_command or root / COMMAND_FILE in names:
        names = [each for each in names if not any(part[0] == "." for part in each.relative_to(root).parts)]
    else:
        names = [each for each in names if each.suffix in ENDINGS]
        if not any(each.suffix == ".rego" for each in names):
            raise Usage(f"{folder} has no .rego file and no {COMMAND_FILE}.", "Name a folder with rules, or one file.")
    if sum(each.stat().st_size for each in names) > LARGEST_BYTES:
        raise Usage(f"{folder} has more than 1 MiB in its files.", "Name the folder of one set.")
    try:
        return {each.relative_to(root).as_posix(): each.read_text(encoding="utf-8") for each in names}
    except UnicodeDecodeError as error:
        raise Usage(f"{folder} has a file that is not a text.", "A set has texts alone.") from error


def source_of(folder: Path) -> str:
    """Name the folder and the commit that it is at; nothing outside of a repository."""
    place = folder.resolve() if folder.is_dir() else folder.resolve().parent
    parts = [git_answer(place, "rev-parse", "--show-prefix"), git_answer(place, "rev-parse", "--short", "HEAD")]
    if not parts[1]:
        return ""
    is_changed = bool(git_answer(place, "status", "--porcelain", "."))
    return f"{parts[0].rstrip('/') or '.'}@{parts[1]}{' with local changes' if is_changed else ''}"


def _find(here: Here, path: str, name: str) -> dict[str, Any]:
    found = here.api.rows("policy_sets", org_id=f"eq.{here.org.id}", path=f"eq.{path}", name=f"eq.{name}")
    return first(found, f'There is no policy set {name} at "{path}".', "`runyard policies list` shows all of them.")
