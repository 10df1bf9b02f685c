"""Reads a connected repository: the heads of its branches, and the content of each module's folders there."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, ValidationError

from wire.terragrunt import STACK, UNIT, Layout
from worker.api.replies import Reply
from worker.attempt.workspace import Workspace
from worker.errors import JobFailed
from worker.steps import fingerprint
from worker.steps.git import Git, merge_tree
from worker.steps.survey import survey

# Trees, and files as small as code is: what is larger changes hashes all the same.
_FILTER = "--filter=blob:limit=64k"
# Each is a fetch of its own; the next reading looks at others.
_MOST_OLD_COMMITS = 20
_MOST_AHEAD = 100
_REMOTE = "refs/runyard/"
# All facts of a head at once: each git process costs the start of a sandbox.
_FORMAT = "%(objectname)%09%(tree)%09%(refname)%09%(authoremail)%09%(committeremail)%09%(authorname)%09%(subject)"
_PEOPLE = "%ae%n%ce%n%(trailers:key=Co-authored-by,valueonly)"
_EMAIL = re.compile(r"<?([^<>\s]{1,200}@[^<>\s]{1,90})>?\Z")
_MOST_COMMITS = 1000
_BRANCH = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./@+-]{0,199}\Z")


class ModuleWork(Reply):
    """One module that follows the repository."""

    id: str
    branch: str | None = None
    folder: str = ""
    paths: list[str] = Field(default_factory=list)
    # Only where its fingerprint is not known.
    applied_commit: str | None = None
    # The branch's commits since this one are counted.
    count_from: str | None = None


class PullWork(Reply):
    """One pull request that is merged to see what it would change."""

    number: int
    base: str
    ref: str


class Seen(Reply):
    """The content of a module that was read last: where it was, and where its missing folder was found."""

    fingerprint: str
    watched: list[str]
    moved_to: str | None = None


class Work(Reply):
    """The server's request: a repository, the modules and pull requests to read, and the heads that it knows."""

    url: str
    digest: str
    modules: list[ModuleWork]
    pull_requests: list[PullWork] = Field(default_factory=list)
    known_heads: dict[str, str] = Field(default_factory=dict)
    seen: dict[str, Seen] = Field(default_factory=dict)


async def resolve(space: Workspace) -> None:
    """Read the repository and put what was found into the job's result."""
    if "survey" in space.job.payload:
        await survey(space)
        return
    arguments = {"p_job": space.job.id, "p_attempt": space.job.attempt}
    try:
        work = Work.model_validate(await space.context.server.call("worker_resolve", arguments))
    except ValidationError as error:
        raise JobFailed(
            "The server's request cannot be read.", code="bad_payload", hint="Update the runner."
        ) from error
    async with Git.opened(space, work.url) as git:
        reading = Reading(git, work)
        space.result["git"] = {"digest": work.digest, **await reading.report()}
    space.say(reading.summary)


def _emails(lines: Iterable[str]) -> list[str]:
    return sorted({found[1] for line in lines if (found := _EMAIL.search(line))})


@dataclass
class Reading:
    """One reading of the repository."""

    git: Git
    work: Work
    default: str = ""
    commits: dict[str, str] = field(default_factory=dict)
    trees: dict[str, fingerprint.Tree] = field(default_factory=dict)
    histories: dict[str, list[str]] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)
    described: dict[str, dict[str, Any]] = field(default_factory=dict)
    summary: str = ""

    async def report(self) -> dict[str, Any]:
        """Return the heads and, where they are new, the modules' fingerprints."""
        heads = await self._advertised()
        if heads and heads == self.work.known_heads:
            self.summary = "No branch has moved since the last reading."
            return {"heads": heads}
        await self._fetch(heads)
        modules = [await self._module(each) for each in self.work.modules]
        pulls = [await self._pull(each) for each in self.work.pull_requests]
        self.summary = f"Read {len(heads)} branches for {len(modules)} modules."
        return {
            "heads": self.commits,
            "modules": modules,
            "pull_requests": pulls,
            "commits": self.described,
        }

    def _branch(self, module: ModuleWork) -> str:
        return (module.branch or self.default).removeprefix("refs/heads/")

    async def _advertised(self) -> dict[str, str]:
        """List the heads of pull requests and of the branches that modules follow, without fetching anything."""
        pulls = {pull.ref for pull in self.work.pull_requests}
        listing = await self.git.read("ls-remote", "--symref", "origin", "HEAD", "refs/heads/*", *sorted(pulls))
        found: dict[str, str] = {}
        for what, _, ref in (line.partition("\t") for line in listing.splitlines()):
            if ref == "HEAD" and what.startswith("ref: refs/heads/"):
                self.default = what.removeprefix("ref: refs/heads/")
            elif ref.startswith("refs/heads/") or ref in pulls:
                found[ref] = what
        wanted = pulls | {f"refs/heads/{self._branch(module)}" for module in self.work.modules}
        wanted |= {f"refs/heads/{pull.base}" for pull in self.work.pull_requests}
        return {ref: found[ref] for ref in sorted(wanted & found.keys()) if _BRANCH.match(ref)}

    async def _fetch(self, heads: Iterable[str]) -> None:
        specs = [f"+{ref}:{_REMOTE}{ref}" for ref in heads]
        if specs:
            await self.git.run("fetch", "--quiet", "--depth=1", "--no-tags", _FILTER, "origin", *specs)
        if self.work.pull_requests:
            # A merge needs the history, but of it no files.
            more = ("--unshallow", "--filter=blob:none") if await self._is_shallow() else ("--filter=blob:none",)
            await self.git.run("fetch", "--quiet", "--no-tags", *more, "origin", *specs)
        # A branch may have moved since it was listed.
        listing = await self.git.read("for-each-ref", f"--format={_FORMAT}", _REMOTE)
        for line in listing.splitlines():
            commit, root, ref, *emails, author, subject = line.split("\t", 6)
            self.commits[ref.removeprefix(_REMOTE)] = commit
            self.roots[commit] = root
            described = {"author": author[:200], "subject": subject[:500], "emails": _emails(emails)}
            self.described[commit] = described

    async def _is_shallow(self) -> bool:
        return (await self.git.read("rev-parse", "--is-shallow-repository")).strip() == "true"

    async def _module(self, module: ModuleWork) -> dict[str, Any]:
        branch = self._branch(module)
        report: dict[str, Any] = {"id": module.id, "branch": branch}
        if (commit := self.commits.get(f"refs/heads/{branch}")) is None:
            return {**report, "problem": f'The repository has no branch "{branch}".'}
        tree = await self._tree(commit)
        if not tree.has(module.folder):
            moved = self._moved(module, tree, self.work.seen.get(module.id))
            return {
                **report,
                "commit": commit,
                "moved_to": moved,
                "problem": f'{branch} has no folder "{module.folder}".',
            }
        watched = tree.watched(module.folder, module.paths)
        applied = await self._applied_fingerprint(module)
        return {
            **report, "commit": commit, "watched": watched, "fingerprint": tree.fingerprint(watched),
            "applied_fingerprint": applied, "ahead": await self._ahead(module.count_from, commit),
        }  # fmt: skip

    def _moved(self, module: ModuleWork, tree: fingerprint.Tree, seen: Seen | None) -> str | None:
        """Find the one folder that has a module's content now and belongs to no other module."""
        if seen is None:
            return None
        taken = {
            fingerprint.normal(each.folder) for each in self.work.modules if self._branch(each) == self._branch(module)
        }
        found = [each for each in tree.places(module.folder, seen.watched, seen.fingerprint) if each not in taken]
        if len(found) == 1:
            return found[0]
        return seen.moved_to if seen.moved_to is not None and tree.has(seen.moved_to) else None

    async def _ahead(self, old: str | None, head: str) -> int | None:
        """Count the commits since the one that was applied; none where it is not among the last hundred."""
        if old is None or old == head:
            return None if old is None else 0
        if head not in self.histories:
            self.histories[head] = await self._history(head)
        found = self.histories[head]
        return found.index(old) if old in found else None

    async def _history(self, head: str) -> list[str]:
        try:
            if await self._is_shallow():
                refs = [f"+{ref}:{_REMOTE}{ref}" for ref, commit in self.commits.items() if commit == head]
                options = ("--quiet", "--no-tags", "--filter=tree:0", f"--deepen={_MOST_AHEAD}")
                await self.git.run("fetch", *options, "origin", *refs)
            listing = await self.git.read("rev-list", "--first-parent", f"--max-count={_MOST_AHEAD + 1}", head)
        except JobFailed:
            return []
        return listing.split()

    async def _pull(self, pull: PullWork) -> dict[str, Any]:
        base, head = self.commits.get(f"refs/heads/{pull.base}"), self.commits.get(pull.ref)
        report: dict[str, Any] = {
            "number": pull.number, "ref": pull.ref, "base_commit": base, "head_commit": head, "modules": [],
        }  # fmt: skip
        if base is None or head is None:
            return {**report, "problem": f"The repository has no {pull.ref if head is None else pull.base}."}
        # Of everybody who is named in its commits.
        options = (f"--max-count={_MOST_COMMITS}", f"--format={_PEOPLE}")
        report["emails"] = _emails((await self.git.read("log", *options, f"{base}..{head}")).splitlines())
        try:
            merged = await merge_tree(self.git, base, head)
        except JobFailed as error:
            return {**report, "problem": f"It cannot be merged: {error.message}"}
        if merged is None:
            return {**report, "problem": f"It conflicts with {pull.base}. Merge {pull.base} into it first."}
        before, after = await self._tree(base), await self._tree(merged)
        found = (
            self._compared(module, before, after) for module in self.work.modules if self._branch(module) == pull.base
        )
        return {**report, "modules": [each for each in found if each]}

    def _compared(self, module: ModuleWork, before: fingerprint.Tree, after: fingerprint.Tree) -> dict[str, Any] | None:
        """Compare a module's content with that after a merge; none where neither has its folder."""
        watched = before.watched(module.folder, module.paths)
        old = before.fingerprint(watched)
        if after.has(module.folder):
            new = after.fingerprint(after.watched(module.folder, module.paths))
            return {"id": module.id, "fingerprint": new, "base_fingerprint": old}
        if not before.has(module.folder):
            return None
        return {
            "id": module.id,
            "is_missing": True,
            "moved_to": self._moved(module, after, Seen(fingerprint=old, watched=watched)),
        }

    async def _applied_fingerprint(self, module: ModuleWork) -> str | None:
        """Look at the commit that was applied; one that the repository has no more is compared with nothing."""
        if module.applied_commit is None or (tree := await self._old_tree(module.applied_commit)) is None:
            return None
        return tree.fingerprint(tree.watched(module.folder, module.paths))

    async def _old_tree(self, commit: str) -> fingerprint.Tree | None:
        if commit not in self.trees and len(self.trees) - len(set(self.commits.values())) >= _MOST_OLD_COMMITS:
            return None
        try:
            if commit not in self.trees:
                await self.git.run("fetch", "--quiet", "--depth=1", "--no-tags", _FILTER, "origin", commit)
            return await self._tree(commit)
        except JobFailed:
            return None

    async def _tree(self, commit: str) -> fingerprint.Tree:
        if commit not in self.trees:
            root = self.roots.get(commit) or (await self.git.read("rev-parse", f"{commit}^{{tree}}")).strip()
            entries = fingerprint.read_entries(
                root, await self.git.read("ls-tree", "-r", "-t", "-z", "--full-tree", commit)
            )
            # Exit code 1: no line has one.
            lines = await self.git.read(
                "grep", "-I", "-z", "-E", fingerprint.SOURCE_LINE, commit, "--", *fingerprint.CODE_FILES, ok=(0, 1)
            )
            self.trees[commit] = fingerprint.Tree(
                entries, fingerprint.read_uses(lines), await self._layout(commit, entries)
            )
        return self.trees[commit]

    async def _layout(self, commit: str, entries: Mapping[str, str]) -> Layout:
        """Read the files of Terragrunt, where there are any."""
        if not any(path.endswith((UNIT, STACK)) for path in entries):
            return Layout({}, ())
        lines = await self.git.read(
            "grep", "-I", "-z", "-e", "", commit, "--", *fingerprint.TERRAGRUNT_FILES, ok=(0, 1)
        )
        return Layout(fingerprint.read_files(lines), entries)
