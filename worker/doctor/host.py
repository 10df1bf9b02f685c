"""Checks of the machine: it must have a writable directory, disk space, engines and git."""

import json
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from worker.doctor.check import Check, fail, ok, warn
from worker.doctor.dispatchers import engine_check
from worker.doctor.isolation import isolation
from worker.finder import HOW_TO_GET_ONE, cached_folders
from worker.fitness import NOTE_FILE
from worker.program import find_program, obstacle
from worker.settings.model import Settings

ENGINES = ("tofu", "terraform", "pulumi", "terragrunt")
NEEDED_BYTES = 1024**3
WANTED_BYTES = 5 * 1024**3
ENGINE_SECONDS = 30


def host_checks(settings: Settings) -> list[Check]:
    """Look at this machine alone; no network is used."""
    folders = settings.working_directory
    return [
        directory("Working directory", folders.working_directory),
        directory("Temp directory", folders.temp_directory),
        disk(folders.working_directory),
        engine_check(settings) if settings.dispatcher.is_remote else engines(settings.engine.additional_binary_paths),
        git(),
        user(),
        *degraded(folders.working_directory),
        *isolation(settings, os.environ),
        *([self_update()] if settings.update.enabled else []),
    ]


def degraded(path: Path) -> list[Check]:
    """Report what a runner on this machine lacks; it takes no jobs until it has it again."""
    found = []
    for note in sorted(path.glob(f"instances/*/{NOTE_FILE}")):
        try:
            said = json.loads(note.read_text(encoding="utf-8"))
            words = f"{said['code']}: {said['reason']} (since {said['since']})"
        except (OSError, ValueError, KeyError, TypeError):
            continue
        found.append(fail("Degraded", words, "Fix it; the runner tries again and then takes jobs."))
    return found


def nearest(path: Path) -> Path:
    """Return the path, or the closest parent that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def directory(name: str, path: Path) -> Check:
    """Make the directory if need be, and write a file into it."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path, prefix=".doctor-"):
            pass
    except OSError as error:
        remedy = f"Make {path} writable for this user, or set WorkingDirectory in the settings."
        return fail(name, f"{path}: {error.strerror}", remedy)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o022:
        return warn(name, f"{path} may be written by others (mode {mode:o})", f"Run `chmod 700 {path}`.")
    return ok(name, f"{path} is writable")


def disk(path: Path) -> Check:
    """Look at the free space where jobs are kept."""
    free = shutil.disk_usage(nearest(path)).free
    seen = f"{free / 1024**3:.1f} GB free"
    remedy = "Free some space, or set WorkingDirectory.WorkingDirectory to a larger disk."
    if free < NEEDED_BYTES:
        return fail("Disk", seen, remedy)
    return warn("Disk", seen, remedy) if free < WANTED_BYTES else ok("Disk", seen)


def engines(additional: list[Path]) -> Check:
    """Look for engines the way jobs do: the additional directories, then PATH, then the command line's cache."""
    search = os.pathsep.join(map(str, [*additional, os.environ.get("PATH", ""), *cached_folders(os.environ)]))
    found = {name: where for name in ENGINES if (where := shutil.which(name, path=search))}
    if not found:
        return fail("Engines", f"no {', '.join(ENGINES)} was found", HOW_TO_GET_ONE)
    seen = {name: version_of(name, where) for name, where in found.items()}
    text = ", ".join(f"{name} {version} ({found[name]})" for name, version in seen.items())
    if broken := [name for name, version in seen.items() if version == "?"]:
        return warn("Engines", text, f"{', '.join(broken)} did not tell a version: see that it runs.")
    return ok("Engines", text)


def version_of(name: str, where: str) -> str:
    """Return the first version-like word that an engine prints, or a question mark."""
    try:
        done = subprocess.run([where, "version"], capture_output=True, text=True, timeout=ENGINE_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return "?"
    words = done.stdout.replace("\n", " ").split()
    return next((word.lstrip("v") for word in words if word.lstrip("v")[:1].isdigit()), "?")


def git() -> Check:
    """Look for git, which fetches modules from repositories."""
    where = shutil.which("git")
    if where is None:
        return warn("Git", "not found", "Install git, if modules come from repositories.")
    return ok("Git", where)


def user() -> Check:
    """Advise against root: a job has every right that the runner has."""
    if os.geteuid() == 0:
        remedy = "Run the runner as a user of its own: a shared runner does not start as root."
        return warn("User", "running as root", remedy)
    return ok("User", f"uid {os.geteuid()}")


def self_update() -> Check:
    """Look at whether the program could be replaced."""
    program = find_program(os.environ, ())
    if why := obstacle(program):
        return warn("Self-update", why, "Start the runner from the one-file program, or turn Update.Enabled off.")
    return ok("Self-update", f"{program.path if program else ''} can be replaced")
