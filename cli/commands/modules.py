"""`runyard modules`: the tree of modules, as rows and as files."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from cli.client.organization import Row
from cli.command import Here, ModuleName, Yes, command, new_app, pairs
from cli.errors import CommandError, NotFound, Usage
from cli.jobs.waiting import follow
from cli.modules import bringing
from cli.modules.files import difference, document_of, read_document, read_files, spec_of, with_variables, write_toml
from cli.modules.on_runner import create_on_runner, read_on_runner
from cli.modules.repository import GIT_URL, open_repository
from cli.output import say
from wire.cloud_block import cloud_block, host_block

app = new_app("Modules, their files and outputs.")

Places = Annotated[
    list[str],
    Argument(metavar="PLACE…", help="A folder of code, the address of a git repository, or TOML files of modules."),
]
Settings = Annotated[
    list[str] | None, Option("--set", metavar="FIELD=JSON", help='Such as engine=terraform or inputs={"region":"eu"}.')
]
READERS = "Module → Output access"
COLUMNS = ("path", "engine", "source_kind", "last_job", "last_type", "last_status", "drift_since")
SHOWN = (
    "path", "description", "engine", "engine_version", "source_kind", "source", "inputs", "env", "labels", "hooks", "approvals_required",
    "auto_apply", "time_limits", "drift_ignores", "runner_instance_name", "pinned_worker_id", "created_at", "updated_at", "id",
)  # fmt: skip


@command(app, "list", page="Modules")
def list_modules(
    here: Here,
    group: Annotated[str | None, Option("--group", help="At and below this path.")] = None,
    drift: Annotated[bool, Option("--drift", help="Only those with drift.")] = False,
) -> None:
    """List the modules with their newest jobs."""
    last = {row["module_id"]: row for row in here.api.all_rows("last_jobs", org_id=f"eq.{here.org.id}", order="path")}
    rows = []
    for row in here.org.modules(group):
        if drift and not row.get("drift_since"):
            continue
        job = last.get(row["id"], {})
        rows.append(
            {**row, "last_job": job.get("number"), "last_type": job.get("type"), "last_status": job.get("status")}
        )
    here.printer.rows(rows, COLUMNS, "No modules. `runyard modules create` creates one.")


@command(app, "show", page="Module")
def show(here: Here, module: ModuleName) -> None:
    """Show one module; of its own files their names."""
    row = _module(here, module)
    if not here.printer.as_json and row["source_kind"] == "inline":
        row["source"] = sorted(row["source"]["files"])
    here.printer.row(row, SHOWN)


@command(app, "cloud-block", page="Module → ⋯ → Use from your terminal")
def cloud_block_of(here: Here, module: ModuleName) -> None:
    """Print the block with which tofu and terraform work against a module, and the one for ~/.terraformrc where it takes one."""
    row = _module(here, module)
    words, host = cloud_block(here.api.url, here.org.slug, row["path"]), host_block(here.api.url)
    rest = f"\nIn ~/.terraformrc:\n\n{host}" if host else ""
    here.printer.result({"cloud": words, "host": host}, lambda _: (words + rest).rstrip())


@command(app, "create", calls=("create_module",), page="Modules → Create module")
def create(
    here: Here,
    path: Annotated[str, Argument(help="Where it will be: group/name; missing groups are created.")],
    folder: Annotated[
        Path | None, Option("--from", help="A folder whose *.tf, *.tf.json and *.yaml become its inline files.")
    ] = None,
    git: Annotated[str | None, Option("--git", help="A repository that its files come from.")] = None,
    ref: Annotated[str | None, Option("--ref", help="With --git: branch, tag or commit.")] = None,
    subfolder: Annotated[str | None, Option("--subfolder", help="With --git: the folder in it.")] = None,
    settings: Settings = None,
) -> None:
    """Create a module."""
    spec = _source(folder, git, ref, subfolder) | _settings(settings)
    made = _create(here, {"path": path.strip("/")}, spec)
    here.printer.result(made, lambda row: f"Created {row['path']}  {row['id']}")


@command(app, "edit", calls=("update_module",), page="Module → Edit")
def edit(here: Here, module: ModuleName, settings: Settings = None, yes: Yes = False) -> None:
    """Change a module: the fields that --set names, or in your editor as the file that `export` writes."""
    row = _module(here, module)
    before = document_of(here.org, row)
    after = {**before, **_settings(settings)} if settings else _edited(before)
    if after["path"] != row["path"]:
        raise Usage("A module's path cannot be changed.", "Create one at the new path, and delete this one.")
    _write(here, [after], yes)


@command(
    app, "import", calls=("create_module", "update_module", "request_survey", "survey", "bring_modules"),
    page="Modules → Create module; Module → Edit; Modules → New → From a repository",
)  # fmt: skip
def import_modules(
    here: Here,
    places: Places,
    group: Annotated[str | None, Option("--group", help="Where they will be; the repository's name.")] = None,
    ref: Annotated[str | None, Option("--ref", help="Branch, tag or commit that runners fetch.")] = None,
    engine: Annotated[str | None, Option("--engine", help="tofu or terraform, if the code does not show.")] = None,
    every: Annotated[bool, Option("--all", help="All that can come, without a question which.")] = False,
    on_runner: Annotated[bool, Option("--on-runner", help="A runner reads it, with its own credentials.")] = False,
    yes: Yes = False,
) -> None:
    """Create modules from a repository's root modules, or from files that `export` wrote; nothing is planned or applied."""
    if not GIT_URL.match(places[0]) and not bringing.has_code(Path(places[0])):
        _write(here, read_files([Path(each) for each in places]), yes)
        return
    if len(places) > 1:
        raise Usage("One repository is imported at a time.", "Name one folder or address.")
    if on_runner:
        if group is None or engine is not None:
            raise Usage("A runner needs the group, and finds the engine itself.", "Add --group, leave out --engine.")
        job, proposals = read_on_runner(here, places[0], ref, group, lambda made: follow(here, [made])[0])
        _bring(here, proposals, every, yes, places[0], lambda chosen: create_on_runner(here, job, chosen))
        return
    with open_repository(places[0], ref) as repository:
        taken = {row["path"] for row in here.org.modules()}
        proposals = bringing.propose(repository, group, engine, taken)
        where = f"{repository.url} {repository.ref}".strip() if repository.url else "the modules themselves"
        _bring(here, proposals, every, yes, where, lambda chosen: bringing.create(here, repository, chosen))


@command(app, "export", page="Module")
def export(
    here: Here,
    modules: Annotated[list[str] | None, Argument(metavar="MODULE…", help="All of them if none is named.")] = None,
    folder: Annotated[Path | None, Option("--to", help="Write a file for each below this folder.")] = None,
) -> None:
    """Write modules as TOML files, which `import` reads."""
    rows = [here.org.module(each) for each in modules] if modules else here.org.modules()
    documents = [document_of(here.org, row) for row in with_variables(here.org, rows)]
    if here.printer.as_json:
        here.printer.document(documents)
    elif folder is None:
        if len(documents) != 1:
            raise Usage(f"{len(documents)} modules do not fit into one file.", "Name one, or a folder with --to.")
        print(write_toml(documents[0]), end="")
    else:
        for document in documents:
            file = folder / f"{document['path']}.toml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(write_toml(document), encoding="utf-8")
        say(f"Wrote {len(documents)} {'file' if len(documents) == 1 else 'files'} below {folder}.")


@command(app, "delete", calls=("delete_module",), page="Module → Delete")
def delete(here: Here, module: ModuleName, yes: Yes = False) -> None:
    """Remove a module from the tree; what it created in the world stays."""
    row = here.org.module(module)
    here.confirm(f"Remove {row['path']}? Its resources in the cloud stay.", yes)
    here.do("delete_module", "Removed {path}", module=row["id"], confirm_name=row["name"])


@command(app, "grants", page=READERS)
def grants(here: Here, module: ModuleName) -> None:
    """List which modules' jobs may read this module's outputs."""
    row = here.org.module(module)
    paths = {each["id"]: each["path"] for each in here.org.modules()}
    found = here.api.all_rows("output_grants", module_id=f"eq.{row['id']}", order="created_at")
    shown = [{"reader": paths.get(each["reader_id"], each["reader_id"]), **each} for each in found]
    here.printer.rows(shown, ("reader", "created_at"), "No other module reads its outputs.")


@command(app, "grant", calls=("grant_outputs",), page=READERS)
def grant(here: Here, module: ModuleName, to: Annotated[str, Option("--to", help="The module that reads.")]) -> None:
    """Grant another module's jobs access to this module's outputs (terraform_remote_state)."""
    _decide(here, "grant_outputs", module, to, "may read the outputs of")


@command(app, "ungrant", calls=("revoke_outputs",), page=READERS)
def ungrant(here: Here, module: ModuleName, to: Annotated[str, Option("--to", help="The module that read.")]) -> None:
    """Revoke another module's access to this module's outputs, at once."""
    _decide(here, "revoke_outputs", module, to, "may no longer read the outputs of")


def _module(here: Here, wanted: str) -> Row:
    return with_variables(here.org, [here.org.module(wanted)])[0]


def _decide(here: Here, function: str, module: str, reader: str, words: str) -> None:
    done = here.api.call(function, module=here.org.module(module)["id"], reader=here.org.module(reader)["id"])
    here.printer.result(done, lambda said: f"{said['reader']} {words} {said['module']}")


@command(app, "outputs", page="Module → Outputs")
def outputs(
    here: Here, module: ModuleName, name: Annotated[str | None, Argument(help="Only this one's value.")] = None
) -> None:
    """Show the outputs that the newest job read; secrets are masked."""
    row = here.org.module(module)
    found = _outputs(here, row)
    if name is None:
        rows = [{"name": each, **found[each], "value": _shown(found[each])} for each in sorted(found)]
        here.printer.rows(rows, ("name", "value"), "No outputs.")
        return
    if name not in found:
        raise NotFound(f'{row["path"]} has no output "{name}".', f"It has: {', '.join(sorted(found)) or 'none'}.")
    value = _shown(found[name])
    here.printer.result(value, lambda shown: shown if isinstance(shown, str) else json.dumps(shown))


@command(app, "lock", calls=("lock_module",), page="Module → Lock")
def lock_module(
    here: Here, module: ModuleName, reason: Annotated[str, Option("--reason", help="Shown to anyone who is refused.")]
) -> None:
    """Lock a module: nothing is applied or destroyed until it is unlocked."""
    row = here.org.module(module)
    here.do("lock_module", lambda said: f"Locked {row['path']}: {said['reason']}", module=row["id"], reason=reason)


@command(app, "unlock", calls=("unlock_module",), page="Module → Unlock")
def unlock_module(here: Here, module: ModuleName) -> None:
    """Take a member's lock off a module."""
    row = here.org.module(module)
    here.do("unlock_module", lambda _: f"Unlocked {row['path']}.", module=row["id"])


def _bring(
    here: Here, proposals: list[bringing.Proposal], every: bool, yes: bool, where: str, create: bringing.Create
) -> None:
    if not here.printer.as_json or not every:
        here.printer.rows([each.row for each in proposals], bringing.COLUMNS)
    if here.printer.as_json and not every:
        return
    chosen = bringing.choose(proposals, every)
    if not chosen:
        raise CommandError("None of them can come.", "The table has the reason for each.")
    here.confirm(f"Create {len(chosen)} modules? Runners get the code from {where}.", yes)
    here.printer.result(create(chosen), lambda rows: "\n".join(f"Created {each['path']}" for each in rows))
    bringing.say_next(chosen)


def _write(here: Here, documents: list[dict[str, Any]], yes: bool) -> None:
    rows = {row["path"]: row for row in with_variables(here.org, here.org.modules())}
    changes = []
    for document in documents:
        row = rows.get(document["path"])
        found = difference(document_of(here.org, row) if row else None, document)
        if found:
            changes.append((document, row))
            say(found)
    if not changes:
        here.printer.result([], lambda _: "Already up to date.")
        return
    here.confirm(f"Write {len(changes)} of {len(documents)}?", yes)
    done = [_apply(here, document, row) for document, row in changes]
    here.printer.result(done, lambda after: "\n".join(f"{each['action']} {each['path']}" for each in after))


def _apply(here: Here, document: dict[str, Any], row: Row | None) -> dict[str, Any]:
    spec = spec_of(here.org, document, row)
    if row is None:
        return {"path": _create(here, document, spec)["path"], "action": "created"}
    here.api.call("update_module", module=row["id"], spec=spec)
    return {"path": row["path"], "action": "changed"}


def _create(here: Here, document: dict[str, Any], spec: dict[str, Any]) -> Row:
    group, _, name = document["path"].rpartition("/")
    if not group:
        raise Usage(f'"{document["path"]}" has no group.', "A module's path is group/name.")
    made: Row = here.api.call("create_module", org=here.org.id, group_path=group, name=name, spec=spec)
    return made


def _edited(before: dict[str, Any]) -> dict[str, Any]:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor or not sys.stdin.isatty():
        raise Usage("There is no editor here.", "Set EDITOR and use a terminal, or name what changes with --set.")
    with tempfile.NamedTemporaryFile("w+", suffix=".toml", encoding="utf-8") as file:
        file.write(write_toml(before))
        file.flush()
        if subprocess.run([*shlex.split(editor), file.name], check=False).returncode != 0:
            raise CommandError("The editor failed, so nothing was changed.")
        return read_document(Path(file.name).read_text(encoding="utf-8"), "What you wrote")


def _settings(texts: list[str] | None) -> dict[str, Any]:
    return {name: _value(text) for name, text in pairs(texts).items()}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _source(folder: Path | None, git: str | None, ref: str | None, subfolder: str | None) -> dict[str, Any]:
    if folder is not None and git is not None:
        raise Usage("Files come from a folder or from a repository, not from both.")
    if git is not None:
        place = {"url": git, "ref": ref, "subfolder": subfolder}
        return {"source_kind": "git", "source": {name: value for name, value in place.items() if value}}
    if folder is None:
        return {}
    if not folder.is_dir():
        raise Usage(f"{folder} is not a folder.")
    names = sorted(
        each for each in folder.iterdir() if each.is_file() and each.name.endswith((".tf", ".tf.json", ".yaml"))
    )
    if not names:
        raise Usage(f"There is no *.tf, *.tf.json or *.yaml in {folder}.")
    return {"source_kind": "inline", "source": {"files": {each.name: each.read_text() for each in names}}}


def _outputs(here: Here, row: Row) -> dict[str, Any]:
    found = here.api.rows(
        "provision_jobs", module_id=f"eq.{row['id']}", status="eq.SUCCEEDED", type="in.(APPLY,OUTPUT)", order="id.desc",
        limit="1", select="result",
    )  # fmt: skip
    outputs: dict[str, Any] = ((found[0]["result"] or {}).get("outputs") if found else None) or {}
    return outputs


def _shown(output: dict[str, Any]) -> Any:
    return "(sensitive)" if output.get("sensitive") else output.get("value")
