"""Lists the root modules of a repository or an archive, for somebody who moves in."""

import asyncio
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from wire.discovery import Root, find_roots, only_folder, propose_paths
from worker.api.replies import Reply
from worker.attempt.workspace import Workspace
from worker.errors import JobFailed
from worker.steps.fetch import unpack_upload
from worker.steps.git import fetch_git

# A module has 1 MiB for code and inputs together.
_MOST_INLINE = 768 * 1024
_MOST_ROOTS = 1000
_LEFT_OUT = frozenset({".git", ".terraform"})
_PUSH = "push the repository, and read it by its address."
FILES_ARTIFACT = "files.json"


class Survey(Reply):
    """The source to read; without an address, the archive that came with the job."""

    group: str
    name: str
    url: str = ""
    ref: str = ""
    sha256: str = ""


async def survey(space: Workspace) -> None:
    """Read the source and put its roots into the job's result."""
    asked = Survey.model_validate(space.job.payload["survey"])
    if asked.url:
        space.result["commit"] = await fetch_git(space, {"url": asked.url, "ref": asked.ref})
        top = space.source
    else:
        await unpack_upload(space, asked.sha256)
        top = only_folder(space.source)
    roots = await asyncio.to_thread(find_roots, top)
    if not roots:
        raise JobFailed(
            "There is no root module in it.", code="no_roots", hint="See whether it is the right repository."
        )
    if not asked.url:
        roots, files = await asyncio.to_thread(_with_files, top, roots)
        await space.context.server.put_artifact(space.ref, FILES_ARTIFACT, json.dumps(files).encode())
    paths = propose_paths(roots, asked.group, asked.name)
    space.result["roots"] = [_described(root, paths[root.folder]) for root in roots[:_MOST_ROOTS]]
    space.say(f"Found {len(roots)} root modules.")


def _described(root: Root, path: str) -> dict[str, Any]:
    facts = asdict(root)
    del facts["sources"]
    return {**facts, "path": path}


def _with_files(top: Path, roots: list[Root]) -> tuple[list[Root], dict[str, dict[str, str]]]:
    """The roots with what keeps each from coming as files, and the files of those that can."""
    done, files = [], {}
    for root in roots:
        try:
            files[root.folder] = {} if root.problem else _files(top / root.folder, root)
            done.append(root)
        except ValueError as error:
            done.append(replace(root, problem=f"{error}: {_PUSH}"))
    return done, files


def _files(folder: Path, root: Root) -> dict[str, str]:
    if root.leads_outside:
        raise ValueError("Its code calls folders outside of it")
    found = {each.relative_to(folder): each for each in sorted(folder.rglob("*")) if each.is_file()}
    code = {name: each for name, each in found.items() if _LEFT_OUT.isdisjoint(name.parts)}
    if sum(each.stat().st_size for each in code.values()) > _MOST_INLINE:
        raise ValueError("It is too large to be kept in the module")
    try:
        return {name.as_posix(): each.read_text(encoding="utf-8") for name, each in code.items()}
    except UnicodeDecodeError as error:
        raise ValueError("It has files that are not text") from error
