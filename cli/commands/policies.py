"""`runyard policies`: rules that plans must pass."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option

from cli.command import Here, Place, Yes, command, given, new_app
from cli.errors import NotFound, Usage
from cli.jobs.waiting import follow, worst_end
from cli.modules.repository import git_answer
from cli.output import say

app = new_app("Attach rules that plans must pass, and override their checks.")
Name = Annotated[str, Argument(metavar="NAME", help="The set's name.")]
COLUMNS = ("path", "name", "level", "source", "bundle_sha256")
ENDINGS = (".rego", ".json", ".yaml", ".yml")
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
    folder: Annotated[Path, Argument(metavar="FOLDER", help="A folder with .rego files, or one such file.")],
    level: Annotated[str, Option("--level", help="advisory, overridable or mandatory.")] = "advisory",
) -> None:
    """Attach the rules of a folder to a module or group, or change the set of that name there."""
    spec = given(name=name, level=level, files=read_files(folder), source=source_of(folder))
    made = here.api.call("attach_policy", org=here.org.id, path=path.strip("/"), spec=spec)
    here.printer.result(made, lambda row: f"{row['name']}  {row['path'] or 'all modules'}  {row['level']}")


@command(app, "test", calls=("test_policy", "policy_test"), page="Policies → Add policy set → Back-test; Job")
def back_test(
    here: Here,
    folder: Annotated[Path, Argument(metavar="FOLDER", help="A folder with .rego files, or one such file.")],
    against: Annotated[str, Option("--against", help="The plans of so many days, at most 30d.")] = "30d",
    path: Annotated[str, Option("--path", help="Only plans at and below this module or group.")] = "",
    name: Annotated[str | None, Option("--name", help="The set's name; without it, the folder's.")] = None,
) -> None:
    """Run rules on a runner over the plans of the last days, and show which jobs they would have refused."""
    spec = {
        "name": (name or folder.resolve().stem)[:63], "files": read_files(folder), "source": source_of(folder),
        "days": _days(against),
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
    if not checks:
        raise NotFound(f"Job {job} has no check {name}.", "`runyard policies list` shows the sets.")
    done = here.api.call("override_check", job=jobs[0]["id"], policy=checks[0]["set_id"], reason=reason)
    here.printer.result(done, lambda row: f"Overrode {row['name']} for job {job}")


def report_lines(found: dict[str, Any]) -> Iterator[str]:
    """Put the result of a test into lines: the counts, then each rule with what it found."""
    yield (
        f"{found['total']} plans of {found['modules']} modules: {found['passed']} would pass, {found['refused']} would be refused"
        f" ({found['applied']} of them were applied), {found['missing']} could not be tested."
    )
    for rule in found["rules"]:
        word = "warns about" if rule["kind"] == "warn" else "refuses"
        yield f"\n{rule['rule'] or 'error'} {word} {rule['plans']} plans of {rule['modules']} modules"
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


def read_files(folder: Path) -> dict[str, str]:
    """Read the rules and data of a folder, or one file of rules."""
    root = folder if folder.is_dir() else folder.parent
    found = sorted(folder.rglob("*")) if folder.is_dir() else [folder]
    names = [each for each in found if each.suffix in ENDINGS and each.is_file() and not each.is_symlink()]
    if not any(each.suffix == ".rego" for each in names):
        raise Usage(f"{folder} has no .rego file.", "Name a folder with rules, or one file.")
    if sum(each.stat().st_size for each in names) > LARGEST_BYTES:
        raise Usage(f"{folder} has more than 1 MiB of rules and data.", "Name the folder of one set.")
    return {each.relative_to(root).as_posix(): each.read_text(encoding="utf-8") for each in names}


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
    if not found:
        raise NotFound(f'There is no policy set {name} at "{path}".', "`runyard policies list` shows all of them.")
    return found[0]
