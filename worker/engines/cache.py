"""The engines that `runyard up` and `runyard engines ensure` keep for this user: found without being on PATH."""

import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path

from packaging.version import InvalidVersion, Version

from worker.enums import OPA, EngineName

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
