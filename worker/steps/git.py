"""Fetching from git with the machine's own credentials, and without its surprises."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.attempt.workspace import Workspace
from worker.errors import JobFailed

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?\Z")
_SCHEMES = re.compile(r"(https?|ssh|git|file)://|[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:|/")
_LOCAL = re.compile(r"(?:file://[^/]*)?(?P<path>/.*)")
_REF = re.compile(r"[A-Za-z0-9_./@+~^-]{1,200}\Z")

# `ext::` and its like run commands; prompts would wait for ever.
_SAFE = {
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=20",
}


async def fetch_git(space: Workspace, source: Mapping[str, Any]) -> str:
    """Fetch one ref, check it out, and return the commit."""
    url, ref = str(source.get("url") or ""), str(source.get("commit") or source.get("ref") or "HEAD")
    _check(url, ref)
    if local := _LOCAL.match(url):
        space.check_visible(Path(local["path"]))
    before, space.env = space.env, {**space.env, **_SAFE}
    space.work, space.is_fetching = space.source, True
    try:
        await _git(space, "init", "--quiet", ".")
        await _git(space, "remote", "add", "origin", url)
        await _git(space, "checkout", "--quiet", "--detach", await _fetch_ref(space, ref))
        await _submodules(space)
        commit = (await space.capture(["git", "rev-parse", "HEAD"])).decode().strip()
    finally:
        space.env, space.is_fetching = before, False
    space.say(f"Checked out {ref} at {commit}")
    return commit


async def _fetch_ref(space: Workspace, ref: str) -> str:
    try:
        await _git(space, "fetch", "--quiet", "--depth=1", "--no-tags", "origin", ref)
        return "FETCH_HEAD"
    except JobFailed:
        if not _COMMIT.match(ref):
            raise
        # Some servers hand out a commit only as part of a branch.
        await _git(space, "fetch", "--quiet", "origin", "+refs/heads/*:refs/remotes/origin/*")
        return ref


async def _submodules(space: Workspace) -> None:
    if Path(space.source / ".gitmodules").is_file():
        await _git(space, "submodule", "update", "--quiet", "--init", "--recursive", "--depth=1")


async def _git(space: Workspace, *arguments: str) -> None:
    # A hook or a filter of the fetched repository must not run on the runner's behalf.
    guards = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.ext.allow=never"]
    shown = f"git {' '.join(arguments)}"
    try:
        await space.run(["git", *guards, *arguments], what=shown)
    except JobFailed as error:
        hint = "Check the URL and the ref, and that the runner's own git credentials may read the repository."
        raise JobFailed(error.message, code="fetch_failed", hint=hint) from error


def _check(url: str, ref: str) -> None:
    if not _SCHEMES.match(url) or any(ord(char) < 33 for char in url):
        raise JobFailed(
            f"{url[:200]!r} is not a git URL that runners fetch from.", code="bad_source",
            hint="Use https://, ssh://, git@host:path, file:// or an absolute path.",
        )  # fmt: skip
    if not _REF.match(ref) or ref.startswith("-"):
        raise JobFailed(f"{ref[:200]!r} is not a git ref.", code="bad_source")
