"""Root modules of a repository as modules here: a table of proposals, a choice, and the modules."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from cli.command import Here
from cli.errors import CommandError, Usage
from cli.modules.repository import Repository
from cli.output import say
from wire.discovery import Root, find_roots, propose_paths

COLUMNS = ("number", "folder", "path", "backend", "engine", "required_version", "workspaces", "note")
TAKEN = "There is a module at this path already."
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
CODE = ("*.tf", "*.tf.json", "*.tofu", "Pulumi.yaml", "terragrunt.hcl")


@dataclass(frozen=True)
class Proposal:
    """One root, the path that it would get, and what keeps it from coming."""

    number: int
    root: Root
    path: str
    note: str

    @property
    def row(self) -> dict[str, Any]:
        """The proposal as a line of the table."""
        return {
            "number": self.number, "folder": self.root.folder or ".", "path": self.path, "backend": self.root.backend or None,
            "engine": self.root.engine, "required_version": self.root.required_version or None,
            "workspaces": ", ".join(self.root.workspaces) or None, "note": self.note or None,
        }  # fmt: skip


Create = Callable[[list[Proposal]], list[dict[str, Any]]]


def has_code(folder: Path) -> bool:
    """Whether a folder or an archive holds code, and not the files that `modules export` writes."""
    return folder.name.endswith(ARCHIVES) or any(next(folder.rglob(pattern), None) for pattern in CODE)


def propose(repository: Repository, group: str | None, engine: str | None, taken: set[str]) -> list[Proposal]:
    """Everything that was found, in the order of its folders."""
    roots = find_roots(repository.top, engine)
    if not roots:
        raise CommandError(f"There is no root module in {repository.name}.", "Name the folder that has the code.")
    paths = propose_paths(roots, group or repository.name, repository.name if group else "main")
    return [
        Proposal(number, root, paths[root.folder], _note(repository, root, paths[root.folder] in taken))
        for number, root in enumerate(roots, 1)
    ]


def choose(proposals: list[Proposal], is_all: bool) -> list[Proposal]:
    """Those that are to come: all that can, or those that a person names."""
    can_come = [each for each in proposals if not each.note]
    if is_all or not can_come:
        return can_come
    if not sys.stdin.isatty():
        raise Usage("There is no terminal to choose modules on.", "Add --all, and --yes.")
    numbers = numbers_of(typer.prompt("Bring which? Numbers such as 1,3-5, or all", default="all"), len(proposals))
    return [each for each in can_come if each.number in numbers]


def numbers_of(text: str, most: int) -> set[int]:
    """The numbers of a list such as 1,3-5."""
    if text.strip() == "all":
        return set(range(1, most + 1))
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        if not match or not 1 <= int(match[1]) <= int(match[2] or match[1]) <= most:
            raise Usage(f'"{part.strip()}" is not a number from 1 to {most}, nor a range of them.')
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def create(here: Here, repository: Repository, chosen: list[Proposal]) -> list[dict[str, Any]]:
    """Create the modules, one after the other."""
    done = []
    for each in chosen:
        group, _, name = each.path.rpartition("/")
        spec = repository.spec(each.root)
        made = here.api.call("create_module", org=here.org.id, group_path=group, name=name, spec=spec)
        done.append({**each.row, "id": made["id"]})
    return done


def say_next(chosen: list[Proposal]) -> None:
    """Name the commands that add each dependency and bring each state in."""
    paths = {each.root.folder: each.path for each in chosen}
    for each in chosen:
        for read in each.root.reads:
            if producer := paths.get(read["folder"]):
                binds = "".join(f" --bind {name}={output}" for name, output in read["bindings"].items())
                say(f"Its dependency: runyard dependencies add {each.path} {producer}{binds}")
        if each.root.engine == "pulumi":
            say(f"Its state: pulumi stack export | runyard state push {each.path} -")
        elif each.root.backend:
            say(f"Its state: runyard state import {each.path}")


def _note(repository: Repository, root: Root, is_taken: bool) -> str:
    return TAKEN if is_taken else repository.problem(root)
