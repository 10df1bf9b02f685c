"""Root modules of a repository: folders that an engine is run in, with what is known about each."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from wire.hcl_blocks import code_files, read_facts
from wire.terragrunt import Layout, is_outside, read_layout

LEFT_OUT = frozenset({"node_modules", "__pycache__", "venv"})
PULUMI_FILES = ("Pulumi.yaml", "Pulumi.yml")
PULUMI_BACKEND = re.compile(r"^backend:\s*\n(?:[ \t]+.*\n)*?[ \t]+url:[ \t]*[\"']?([^\s\"']+)", re.MULTILINE)
NO_CODE = "It names no source, and there is no code beside it."
OUTSIDE = "It depends on a folder that is not in the repository: {}."
ITSELF = "It depends on itself."
# Files in which people write down the engine that they use.
ENGINE_FILES = {".opentofu-version": "tofu", ".terraform-version": "terraform"}
REGISTRIES = {"registry.opentofu.org/": "tofu", "registry.terraform.io/": "terraform"}
MOST_PART = 63


@dataclass(frozen=True)
class Root:
    """One folder that is planned on its own; a problem is the reason why it cannot be imported."""

    folder: str
    engine: str
    backend: str = ""
    required_version: str = ""
    sources: tuple[str, ...] = ()
    workspaces: tuple[str, ...] = ()
    problem: str = ""
    # What it depends on, as Terragrunt's files tell: folders, and for each the outputs that become inputs.
    reads: tuple[dict[str, Any], ...] = ()

    @property
    def leads_outside(self) -> bool:
        """Whether its code calls folders that are not below it."""
        return any(
            _joined(self.folder, each) is None or not _is_below(self.folder, each) for each in _near(self.sources)
        )


def find_roots(top: Path, engine: str | None = None) -> list[Root]:
    """Every root below a folder: code that names a backend, or that no other folder calls."""
    layout = read_layout(top)
    units = [_unit(top, layout, folder) for folder in layout.units()]
    templates = {source for _, source in layout.generated.values()}
    folders = sorted({*_folders(top)} - templates - {each.folder for each in units})
    found = [*units, *(root for folder in folders if (root := _read(top, folder, engine)))]
    called = {_joined(each.folder, source) for each in found for source in _near(each.sources)}
    roots = [each for each in found if each in units or each.backend or each.folder not in called]
    return sorted(roots, key=lambda root: root.folder)


def only_folder(top: Path) -> Path:
    """The folder that everything is in: archives of repositories often have one around them."""
    inside = list(top.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else top


def propose_paths(roots: Iterable[Root], group: str, name: str) -> dict[str, str]:
    """A path for each root by its folder: below the group, as the folders are; `name` is the top folder's."""
    wanted = {
        root.folder: "/".join([group, *(slug(each) for each in PurePosixPath(root.folder).parts or (name,))])
        for root in roots
    }
    paths: dict[str, str] = {}
    for folder, path in wanted.items():
        # A path is a module or a group: the root above other roots gets a name of its own.
        is_above = any(other.startswith(f"{path}/") for other in wanted.values())
        paths[folder] = _free(f"{path}/main" if is_above else path, paths.values())
    return paths


def slug(text: str) -> str:
    """A part of a path as the database accepts it."""
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:MOST_PART] or "main"


def _free(path: str, taken: Iterable[str]) -> str:
    used, number, free = set(taken), 1, path
    while free in used:
        number += 1
        free = f"{path}-{number}"
    return free


def _folders(top: Path) -> Iterator[str]:
    for place, names, _ in os.walk(top):
        names[:] = [each for each in names if each not in LEFT_OUT and not each.startswith(".")]
        folder = Path(place).relative_to(top).as_posix()
        yield "" if folder == "." else folder


def _read(top: Path, folder: str, engine: str | None) -> Root | None:
    place = top / folder
    if project := next((place / name for name in PULUMI_FILES if (place / name).is_file()), None):
        url = PULUMI_BACKEND.search(project.read_text(encoding="utf-8", errors="replace"))
        stacks = sorted(each.name.split(".")[1] for each in place.glob("Pulumi.*.y*ml"))
        return Root(folder, "pulumi", url[1] if url else "pulumi", workspaces=tuple(stacks))
    if not code_files(place, is_tofu=True):
        return None
    chosen = engine or _engine_of(top, place)
    facts = read_facts(place, is_tofu=chosen == "tofu")
    return Root(folder, chosen, facts.backend, facts.required_version, facts.sources, facts.workspaces)


def _unit(top: Path, layout: Layout, folder: str) -> Root:
    """A unit with what it is made of; each folder is named from the unit's, as sources are."""
    unit = layout.unit(folder)
    missing = layout.missing(unit)
    place = top / unit.folder
    has_code = unit.has_source or not place.is_dir() or bool(code_files(place, is_tofu=True))
    problem = "" if has_code else NO_CODE
    if missing or folder in unit.producers:
        problem = OUTSIDE.format(missing[0]) if missing else ITSELF
    near = {each for each in (unit.source, *unit.includes, *unit.producers) if each and not is_outside(each)}
    return Root(
        unit.folder, "terragrunt", unit.backend, unit.version, problem=problem,
        sources=tuple(sorted(f"./{os.path.relpath(f'/{each}', f'/{unit.folder}')}" for each in near)),
        reads=tuple({"folder": each, "bindings": bound} for each, bound in unit.producers.items()),
    )  # fmt: skip


def _engine_of(top: Path, place: Path) -> str:
    """The engine by the files that it leaves or is chosen with; OpenTofu where nothing tells."""
    if any(each.name.endswith((".tofu", ".tofu.json")) for each in place.iterdir()):
        return "tofu"
    lock = place / ".terraform.lock.hcl"
    text = lock.read_text(encoding="utf-8", errors="replace") if lock.is_file() else ""
    by_lock = [engine for registry, engine in REGISTRIES.items() if registry in text]
    above = [place, *(each for each in place.parents if each.is_relative_to(top))]
    by_file = [engine for each in above for name, engine in ENGINE_FILES.items() if (each / name).is_file()]
    return next(iter([*by_lock, *by_file]), "tofu")


def _near(sources: Iterable[str]) -> list[str]:
    return [each for each in sources if each.startswith(("./", "../")) or each in (".", "..")]


def _is_below(folder: str, source: str) -> bool:
    joined = _joined(folder, source) or ""
    return folder == "" or joined.startswith(f"{folder}/")


def _joined(folder: str, source: str) -> str | None:
    """The folder that a source means; none where it is not in the repository."""
    joined = os.path.normpath(f"{folder or '.'}/{source.replace('//', '/')}")
    return None if joined.startswith("..") else "" if joined == "." else joined
