"""Finds this machine's engines: in the operator's directories first, then on PATH, then in the command line's cache."""

import asyncio
import hashlib
import json
import os
import platform
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from worker.children.child import output_of
from worker.children.environment import host_variables, search_path
from worker.enums import OPA, EngineName
from worker.errors import JobFailed, RunnerUnfit
from worker.runtime_log import get_logger

HOW_TO_GET_ONE = (
    "Run `runyard engines ensure tofu` as the runner's user, install an engine on its PATH, or name a folder in "
    "Engine.AdditionalBinaryPaths."
)
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder that the command line keeps engines in; the same variables name another for both."""
    if chosen := environ.get("RUNYARD_ENGINE_CACHE"):
        return Path(chosen).expanduser()
    if chosen := environ.get("RUNYARD_CACHE"):
        return Path(chosen).expanduser() / "engines"
    home = environ.get("XDG_CACHE_HOME") or (f"{environ['HOME']}/.cache" if environ.get("HOME") else "")
    return Path(home) / "runyard" / "engines" if home else None


def has_its_checksum(binary: Path) -> bool:
    """Whether a binary is the one that was fetched or built: `runyard engines ensure` notes its SHA-256 beside it."""
    note = binary.with_name(f"{binary.name}.sha256")
    if not note.is_file():
        return True
    with binary.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == note.read_text(encoding="ascii").strip()


def cached_folders(environ: Mapping[str, str]) -> list[Path]:
    """List the folders of engines for this machine, the newest version first; one may still be on its way there."""
    folder, machine = cache_folder(environ), platform.machine().lower()
    end = f"-{platform.system().lower()}-{_MACHINES.get(machine, machine)}"
    found: list[tuple[Version, Path]] = []
    # Beside the engines of modules, the one that checks plans.
    for name in (*EngineName, OPA):
        for place in _matching(folder, f"{name}-*{end}") if folder else ():
            try:
                found.append((Version(place.name.removeprefix(f"{name}-").removesuffix(end)), place))
            except InvalidVersion:
                continue
    return [place for _, place in sorted(found, reverse=True)]


def _matching(folder: Path, pattern: str) -> list[Path]:
    try:
        return list(folder.glob(pattern))
    except PermissionError:
        # HOME may be somebody else's, where this user is not let in.
        return []


# Written by the stack beside an engine that it is still fetching or building.
PROGRESS_FILE = "progress.json"
_VERSION_SECONDS = 60.0
# A compiler may be silent for minutes on a small machine.
_STALLED_SECONDS = 600.0
_VERSION = re.compile(r"v?(\d+\.\d+\.\d+[^\s\"]*)")


@dataclass(frozen=True)
class FoundEngine:
    """One engine on this machine."""

    name: EngineName
    binary: Path
    version: str


class EngineFinder:
    """Checks again before every heartbeat, cheaply: an engine's version is read only when its file has changed."""

    def __init__(self, additional_paths: Sequence[Path], environ: Mapping[str, str]) -> None:
        self._additional = tuple(additional_paths)
        self._environ = dict(environ)
        self._cached: list[Path] = []
        self._seen: dict[tuple[Path, int, int], str] = {}
        self._log = get_logger("worker.engines")
        self.versions: dict[EngineName, list[FoundEngine]] = {}

    @property
    def found(self) -> dict[EngineName, FoundEngine]:
        """The engines by name: the first version of each, which jobs without a requirement get."""
        return {name: versions[0] for name, versions in self.versions.items()}

    @property
    def path(self) -> str:
        """The PATH that engines and hooks get."""
        return os.pathsep.join([search_path(self._additional, self._environ), *map(str, self._cached)])

    async def refresh(self) -> None:
        """Check for each engine again."""
        self._cached = cached_folders(self._environ)
        for name in EngineName:
            await self._check(name)

    async def probe(self) -> None:
        """Start each engine once more; raise while none does."""
        self._seen.clear()
        await self.refresh()
        if not self.found:
            raise RunnerUnfit("No engine starts on this machine.", code="engine", hint=HOW_TO_GET_ONE)

    def note(self) -> str | None:
        """Describe the progress of an engine that is still being prepared."""
        for folder in (*self._additional, *self._cached):
            try:
                progress = json.loads((folder / PROGRESS_FILE).read_text(encoding="utf-8"))
                name = str(progress["engine"])
                if progress.get("is_done") or name in self.found:
                    continue
                if progress.get("error") is not None:
                    return f"{name} could not be prepared: {progress['error'] or 'the build gave no reason'}"
                moved_at = float(progress.get("updated_at", time.time()))
                stall = f", stalled since {datetime.fromtimestamp(moved_at, UTC):%H:%M} UTC"
                is_stalled = time.time() - moved_at > _STALLED_SECONDS
                return f"{name} is being prepared, {int(progress['percent'])} %{stall if is_stalled else ''}"
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return None

    async def _check(self, name: EngineName) -> None:
        """Find every version of one engine: the operator's folders first, then PATH, then the cache, newest first."""
        known = {engine.binary for engine in self.versions.get(name, [])}
        versions: list[FoundEngine] = []
        for folder in dict.fromkeys(self.path.split(os.pathsep)):
            place = shutil.which(name, path=folder) if folder else None
            version = await self._checked(Path(place).absolute()) if place else None
            if place and version and version not in {each.version for each in versions}:
                versions.append(FoundEngine(name, Path(place).absolute(), version))
        for engine in versions:
            if engine.binary not in known:
                self._log.info("engine found", engine=name, version=engine.version, binary=str(engine.binary))
        if versions:
            self.versions[name] = versions
        elif self.versions.pop(name, None):
            self._log.warning("engine was removed", engine=name)

    async def _checked(self, binary: Path) -> str | None:
        try:
            facts = binary.stat()
        except OSError:
            return None
        mark = (binary, facts.st_mtime_ns, facts.st_size)
        if mark not in self._seen:
            is_intact = await asyncio.to_thread(has_its_checksum, binary)
            version = await self._version(binary) if is_intact else None
            if version is None:
                if not is_intact:
                    self._log.error("an engine is not the one that was fetched", binary=str(binary))
                return None
            self._seen[mark] = version
        return self._seen[mark]

    async def _version(self, binary: Path) -> str | None:
        env = {**host_variables(self._environ), "PATH": self.path, "CHECKPOINT_DISABLE": "1"}
        env |= {"TF_CLI_CONFIG_FILE": os.devnull, "PULUMI_SKIP_UPDATE_CHECK": "true"}
        try:
            code, output, _ = await output_of([str(binary), "version"], _VERSION_SECONDS, env=env)
        except OSError as error:
            is_late = isinstance(error, TimeoutError)
            why = f"it did not say its version within {_VERSION_SECONDS:g} s" if is_late else str(error)
            self._log.warning("an engine does not run", binary=str(binary), why=why)
            return None
        found = _VERSION.search(output.decode(errors="replace"))
        return found.group(1) if found and code == 0 else None


# Leaves out a version with a suffix (a pre-release): engines on demand are releases.
_NUMBERS = re.compile(r"\d+(?:\.\d+){0,2}(?![\w.+-])")


def choose_version(there: Sequence[FoundEngine], *required: str | None) -> FoundEngine:
    """Return the first of an engine's versions that meets every requirement; refuse a job that none of them fits."""
    wanted = [each.strip() for each in required if each and each.strip()]
    name = there[0].name
    for engine in there:
        if all(_is_met(name, engine.version, each) for each in wanted):
            return engine
    versions = ", ".join(engine.version for engine in there)
    raise JobFailed(
        f"The module requires {name} {' and '.join(wanted)}, but this runner has {versions}.",
        code="engine_version",
        hint=f"Run `runyard engines ensure {name}@VERSION` as the runner's user, install that version on the runner, or "
        "change the module's requirement.",
    )


def named_version(*required: str | None) -> str | None:
    """Return the newest version that the requirements name and accept; ~> 1.9 names 1.9.0."""
    wanted = [each.strip() for each in required if each and each.strip()]
    named = [Version(each) for each in _NUMBERS.findall(",".join(wanted))]
    whole = {f"{each.major}.{each.minor}.{each.micro}" for each in named}
    return max((each for each in whole if all(_is_met("", each, part) for part in wanted)), key=Version, default=None)


def _is_met(engine: str, found: str, required: str) -> bool:
    try:
        parts = (_specifier(part.strip()) for part in required.split(","))
        return Version(found) in SpecifierSet(",".join(parts), prereleases=True)
    except (InvalidSpecifier, InvalidVersion) as error:
        raise JobFailed(
            f"The module requires {engine} {required!r}, which is not a version.",
            code="bad_engine_version",
            hint="Write 1.12.6, or a range such as >=1.10,<2 or ~> 1.10.",
        ) from error


def _specifier(part: str) -> str:
    # Terraform's own spelling of "compatible", and a bare version, which means exactly that one.
    if part.startswith("~>"):
        version = part.removeprefix("~>").strip().lstrip("v")
        return f"~={version}" if "." in version else f">={version}"
    if re.match(r"v?\d", part):
        return f"=={part.lstrip('v')}"
    if re.match(r"=\s*v?\d", part):
        return f"=={part.lstrip('= v')}"
    return re.sub(r"^([<>=!]+)\s*v?", r"\1", part)
