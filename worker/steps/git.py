"""Fetching from git in an environment of its own, within bounds: nothing of the module decides how git runs."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from worker.attempt.workspace import Workspace
from worker.children.users import COOKIE_VARIABLE
from worker.errors import JobFailed
from worker.files.own_files import sealed
from worker.settings.model import GitSettings
from worker.steps.git_credentials import credential_helper, find_credential

# A file takes a block at least.
_BLOCK = 4096
_PAUSE_SECONDS = 1.0
_HINT = "Leave what is not code out of the repository, or raise the runner's setting {name}."


@asynccontextmanager
async def bounded(folder: Path, limits: GitSettings) -> AsyncIterator[None]:
    """End what runs in the block when it takes too long, or more room below the folder than a repository may."""
    most, seconds = limits.most_megabytes * 1024 * 1024, limits.timeout_seconds
    try:
        async with asyncio.timeout(seconds) as limit:
            watch = asyncio.create_task(_watch(folder, most, limit))
            try:
                yield
            finally:
                watch.cancel()
    except TimeoutError as error:
        if not limit.expired():
            raise
        if not await asyncio.to_thread(_is_larger, folder, most):
            words, name = f"The repository was not read within {seconds:g} s.", "Git.TimeoutSeconds"
            raise JobFailed(words, code="fetch_failed", hint=_HINT.format(name=name)) from error
    if await asyncio.to_thread(_is_larger, folder, most):
        words = f"The repository takes more than {limits.most_megabytes:,} MiB on the runner's disk."
        raise JobFailed(words, code="too_large", hint=_HINT.format(name="Git.MostMegabytes"))


async def _watch(folder: Path, most: int, limit: asyncio.Timeout) -> None:
    """Expire the timeout once the folder is too large; a slow look at many files waits the longer for the next."""
    pause = _PAUSE_SECONDS
    while True:
        await asyncio.sleep(pause)
        began = time.monotonic()
        if await asyncio.to_thread(_is_larger, folder, most):
            limit.reschedule(0)
            return
        pause = max(_PAUSE_SECONDS, 5 * (time.monotonic() - began))


def _is_larger(folder: Path, most: int) -> bool:
    size, folders = 0, [str(folder)]
    while folders and size <= most:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    size += max(_BLOCK, entry.stat(follow_symlinks=False).st_size)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            # Git removes its temporary files meanwhile.
            continue
    return size > most


_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?\Z")
_SCHEMES = re.compile(r"(https?|ssh|git|file)://|[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:|/")
_LOCAL = re.compile(r"(?:file://[^/]*)?(?P<path>/.*)")
_SHORT_SSH = re.compile(r"(?P<user>[A-Za-z0-9_.-]+)@(?P<host>[A-Za-z0-9.-]+):(?P<path>.*)")
# Git, its helpers and this runner read a stranger address in different ways: they would see different users and hosts.
_AUTHORITY = re.compile(
    r"[a-z]+://(?:[A-Za-z0-9_.~+][A-Za-z0-9_.~+-]*(?::[^/@?#]*)?@)?"
    r"(?:(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?)?(?:/|\Z)"
)
_ENCODED = re.compile(r"%(?:25)*(?:[01][0-9a-f]|7f|5c)", re.IGNORECASE)
_REF = re.compile(r"[A-Za-z0-9_./@+~^-]{1,200}\Z")

# Variables that the machine's operator may have set for every program; the module's own variables are not among them.
_FROM_HOST = frozenset((
    "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "GIT_SSL_CAINFO", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
))  # fmt: skip
# A submodule on another host would otherwise be offered the machine's keys.
_SSH = (
    'f() { for each; do case "$each" in "$RUNYARD_GIT_HOST"|*@"$RUNYARD_GIT_HOST") '
    'exec ssh -o BatchMode=yes -o ConnectTimeout=20 "$@";; esac; done; '
    'echo "ssh is used for the host of the source alone" >&2; exit 1; }; f'
)
# No program of a repository is run; the operator's credential helpers have run already.
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "credential.helper": "",
    "http.extraHeader": "",
    "http.followRedirects": "initial",
    "protocol.ext.allow": "never",
    "safe.bareRepository": "explicit",
    "submodule.recurse": "false",
}


async def fetch_git(space: Workspace, source: Mapping[str, Any]) -> str:
    """Fetch one ref, check it out, and return the commit."""
    url, ref = str(source.get("url") or ""), str(source.get("commit") or source.get("ref") or "HEAD")
    _check(url, ref)
    merge = source.get("merge")
    async with Git.opened(space, url) as git:
        fetched = await _fetch_merge(git, merge) if isinstance(merge, dict) else await git.fetch_ref(ref)
        await git.run("checkout", "--quiet", "--detach", fetched)
        if Path(space.source / ".gitmodules").is_file():
            # Any other way to update than a checkout may be a command.
            await git.run("submodule", "update", "--quiet", "--init", "--recursive", "--checkout", "--depth=1")
        commit = await git.commit()
    if isinstance(merge, dict):
        space.say(f"Checked out the merge of {merge['head']} into {merge['base']}")
        return str(merge["head"])
    space.say(f"Checked out {ref} at {commit}")
    return commit


async def _fetch_merge(git: "Git", merge: Mapping[str, Any]) -> str:
    """Merge the two commits of a pull request, and return the commit."""
    base, head = str(merge.get("base")), str(merge.get("head"))
    if not _COMMIT.match(base) or not _COMMIT.match(head):
        raise JobFailed("The pull request names no commits.", code="bad_source")
    await git.run("fetch", "--quiet", "--no-tags", "--filter=blob:none", "origin", base, head)
    if (tree := await merge_tree(git, base, head)) is None:
        raise JobFailed("The pull request conflicts with its base.", code="bad_source", hint="Merge the base into it.")
    who = ("-c", "user.name=Runyard", "-c", "user.email=runyard@localhost")
    return (await git.read(*who, "commit-tree", tree, "-p", base, "-p", head, "-m", "Merge for a plan")).strip()


async def merge_tree(git: "Git", base: str, head: str) -> str | None:
    """Merge two commits without touching a file, and return the tree; none for a conflict."""
    printed = (await git.read("merge-tree", "--write-tree", "--no-messages", base, head, ok=(0, 1))).splitlines()
    # One line is the tree alone; after a conflict its files follow.
    return printed[0] if len(printed) == 1 else None


class Git:
    """Git with a fixed configuration and at most one credential."""

    def __init__(self, space: Workspace, settings: Mapping[str, str], descriptors: tuple[int, ...]) -> None:
        self._space = space
        self._descriptors = descriptors
        self._guards = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    @classmethod
    @asynccontextmanager
    async def opened(cls, space: Workspace, url: str) -> AsyncIterator["Git"]:
        """Make an empty repository with this origin; git's own environment replaces the job's while the block runs."""
        _check(url, "HEAD")
        if local := _LOCAL.match(url):
            space.check_visible(Path(local["path"]))
            # A link, which would lead git to another place.
            space.check_visible(Path(local["path"]) / ".git")
        source = split_source(url)
        credential = await find_credential(space, source)
        with ExitStack() as stack:
            helper, first = stack.enter_context(credential_helper(credential, source, space.root))
            config, second = stack.enter_context(sealed(_operators_config(space), space.root))
            before = space.env, space.work
            space.env = {**_environment(space, source), "GIT_CONFIG_GLOBAL": config}
            space.work, space.is_fetching = space.source, True
            try:
                git = cls(space, {**_SETTINGS, **helper}, (*first, *second))
                await git.run("init", "--quiet", ".")
                await git.run("remote", "add", "origin", url)
                async with bounded(space.source, space.context.settings.git):
                    yield git
            finally:
                (space.env, space.work), space.is_fetching = before, False

    async def run(self, *arguments: str) -> None:
        """Run git with its output in the log."""
        shown = f"git {' '.join(arguments)}"
        try:
            await self._space.run(["git", *self._guards, *arguments], what=shown, pass_fds=self._descriptors)
        except JobFailed as error:
            raise _fetch_failed(error) from error

    async def read(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        """Run git and return what it prints."""
        # With the descriptors, or another file of that number would be read as configuration.
        argv = ["git", *self._guards, *arguments]
        try:
            return (await self._space.capture(argv, ok=ok, pass_fds=self._descriptors)).decode(errors="replace")
        except JobFailed as error:
            raise _fetch_failed(error) from error

    async def commit(self) -> str:
        """Return what is checked out."""
        return (await self.read("rev-parse", "HEAD")).strip()

    async def fetch_ref(self, ref: str) -> str:
        """Fetch a ref or a commit, and return the name by which it is checked out."""
        try:
            await self.run("fetch", "--quiet", "--depth=1", "--no-tags", "origin", ref)
            return "FETCH_HEAD"
        except JobFailed:
            if not _COMMIT.match(ref):
                raise
            # Some servers hand out a commit only as part of a branch.
            await self.run("fetch", "--quiet", "origin", "+refs/heads/*:refs/remotes/origin/*")
            return ref


def _fetch_failed(error: JobFailed) -> JobFailed:
    hint = "Check the URL and the ref, and that the runner's own git credentials may read the repository."
    return JobFailed(error.message, code="fetch_failed", hint=hint)


def split_source(url: str) -> SplitResult:
    """Read a source's address, also the short form of ssh."""
    if short := _SHORT_SSH.fullmatch(url):
        url = f"ssh://{short['user']}@{short['host']}/{short['path']}"
    try:
        return urlsplit(url if "://" in url else f"file://{url}")
    except ValueError as error:
        raise JobFailed(f"{url[:200]!r} is not a git URL: {error}.", code="bad_source") from error


def _host(source: SplitResult) -> str:
    """The host as it is spelled, without user and port; no host has the name that means none."""
    place = source.netloc.rpartition("@")[2]
    return (place[1:].partition("]")[0] if place.startswith("[") else place.partition(":")[0]) or "/"


def _environment(space: Workspace, source: SplitResult) -> dict[str, str]:
    host = {name: value for name, value in space.context.environ.items() if name in _FROM_HOST}
    return {
        **host,
        "PATH": space.context.finder.path,
        # Without the machine's .netrc, which git would offer to every host, encrypted or not.
        "HOME": str(space.root / "home"),
        "TMPDIR": str(space.root / "tmp"),
        COOKIE_VARIABLE: space.cookie,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TEMPLATE_DIR": str(_template(space.root)),
        "GIT_ALLOW_PROTOCOL": ":".join(_protocols(source)),
        # Prompts would wait for ever.
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_SSH_COMMAND": _SSH,
        "GIT_SSH_VARIANT": "ssh",
        "RUNYARD_GIT_HOST": _host(source),
    }


def _protocols(source: SplitResult) -> Iterator[str]:
    """Submodules come by what is encrypted or anonymous; a file of this machine only with a source that is one."""
    yield from ("https", "ssh", "git")
    if source.scheme in {"http", "file"}:
        yield source.scheme


def _template(root: Path) -> Path:
    """Give every repository that git makes here, submodules too, attributes that win over its own: no filter runs."""
    attributes = root / "git-template" / "info" / "attributes"
    attributes.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    attributes.write_text("* -filter\n", encoding="ascii")
    return attributes.parents[1]


def _operators_config(space: Workspace) -> bytes:
    """Read the configuration that the operator names for fetches, as git's own variable in the runner's environment."""
    named = space.context.environ.get("GIT_CONFIG_GLOBAL")
    try:
        return Path(named).read_bytes() if named else b""
    except OSError as error:
        space.say(f"GIT_CONFIG_GLOBAL of the runner cannot be read and is ignored: {error}")
        return b""


def _check(url: str, ref: str) -> None:
    is_plain = not _ENCODED.search(url) and not any(ord(char) < 33 or char in "\\\x7f" for char in url)
    if not _SCHEMES.match(url) or not is_plain or ("://" in url and not _AUTHORITY.match(url)):
        raise JobFailed(
            f"{url[:200]!r} is not a git URL that runners fetch from.", code="bad_source",
            hint="Use https://, ssh://, git@host:path, file:// or an absolute path.",
        )  # fmt: skip
    if url.startswith("http://") and split_source(url).password is not None:
        raise JobFailed(
            "The git URL has a password and plain http, which everybody on the way can read.",
            code="bad_source", hint="Use https://.",
        )  # fmt: skip
    if not _REF.match(ref) or ref.startswith("-"):
        raise JobFailed(f"{ref[:200]!r} is not a git ref.", code="bad_source")
