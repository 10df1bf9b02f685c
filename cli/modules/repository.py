"""Code that modules are made of: a repository at an address, or a folder on this disk."""

import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cli.errors import CommandError, Missing
from wire.discovery import Root, only_folder, slug

GIT_URL = re.compile(r"[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:")
# A module has 1 MiB for code and inputs together.
MOST_INLINE = 768 * 1024
NEEDS_GIT = "Its code calls folders outside of it: push the repository, and import it by its address."
NO_TEXT = "It has files that are not text: push the repository, and import it by its address."
TOO_LARGE = "It is too large to be kept in the module: push the repository, and import it by its address."


@dataclass(frozen=True)
class Repository:
    """The code's folder on this disk, and the address from which runners fetch it; without one a module carries its files."""

    top: Path
    name: str
    url: str = ""
    ref: str = ""
    prefix: str = ""

    def problem(self, root: Root) -> str:
        """Return the reason why a root cannot become a module; empty if it can."""
        if root.problem or self.url:
            return root.problem
        if root.leads_outside:
            return NEEDS_GIT
        try:
            size = sum(map(len, self._files(root).values()))
        except UnicodeDecodeError:
            return NO_TEXT
        except CommandError as error:
            return error.message
        return TOO_LARGE if size > MOST_INLINE else ""

    def spec(self, root: Root) -> dict[str, Any]:
        """The module's specification."""
        version = root.required_version if len(root.required_version) <= 50 else ""
        common = {"engine": root.engine, "engine_version": version or None}
        if not self.url:
            return {**common, "source_kind": "inline", "source": {"files": self._files(root)}}
        folder = "/".join(part for part in (self.prefix, root.folder) if part)
        source = {"url": self.url, "ref": self.ref, "subfolder": folder}
        return {**common, "source_kind": "git", "source": {name: value for name, value in source.items() if value}}

    def _files(self, root: Root) -> dict[str, str]:
        from cli.jobs.folder import files_of

        folder = self.top / root.folder
        return {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in files_of(folder)}


@contextmanager
def open_repository(place: str, ref: str | None) -> Iterator[Repository]:
    """The code at an address or in an archive, unpacked for as long as it is read, or in a folder of this disk."""
    if not GIT_URL.match(place) and not Path(place).is_file():
        yield _on_disk(Path(place), ref)
        return
    with tempfile.TemporaryDirectory(prefix="runyard-import-") as folder:
        if Path(place).is_file():
            yield _unpacked(Path(place), Path(folder))
            return
        branch = ["--branch", ref] if ref else []
        _git("clone", "--quiet", "--depth", "1", *branch, "--", place, folder)
        yield Repository(Path(folder), name_of(place), without_password(place), ref or "")


def name_of(url: str) -> str:
    """The repository's name, as its address ends."""
    return slug(re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git"))


def without_password(url: str) -> str:
    """The address without credentials: runners have their own."""
    parts = urlsplit(url)
    is_plain = "@" not in parts.netloc or parts.scheme not in ("http", "https")
    return url if is_plain else parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _on_disk(place: Path, ref: str | None) -> Repository:
    if not place.is_dir():
        raise Missing(f"There is no folder {place}.", "Name a folder, or a repository by its address.")
    top = place.resolve()
    url = git_answer(top, "config", "--get", "remote.origin.url")
    if not url:
        return Repository(top, slug(top.name))
    prefix = git_answer(top, "rev-parse", "--show-prefix").rstrip("/")
    branch = git_answer(top, "symbolic-ref", "--short", "HEAD")
    return Repository(top, name_of(url), without_password(url), ref or branch, prefix)


def _unpacked(archive: Path, folder: Path) -> Repository:
    """The code in an archive: its modules carry their files."""
    try:
        if archive.suffix == ".zip":
            shutil.unpack_archive(archive, folder)
        else:
            _untar(archive, folder.resolve())
    except (shutil.ReadError, tarfile.TarError, ValueError, OSError, EOFError) as error:
        raise CommandError(f"{archive} cannot be unpacked: {error}", "Name a .tar, .tar.gz or .zip file.") from error
    return Repository(only_folder(folder), slug(re.sub(r"\.(tar(\.\w+)?|tgz|zip)$", "", archive.name)))


def _untar(archive: Path, folder: Path) -> None:
    """Write the regular files of an archive; Python has filters for that only from 3.11.4 on, and Debian 12 an older one."""
    with tarfile.open(archive) as tar:
        for member in tar:
            place = (folder / member.name).resolve()
            if not place.is_relative_to(folder):
                raise ValueError(f"{member.name} is outside of it")
            if member.isfile() and (content := tar.extractfile(member)):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.read())


def git_answer(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return its output; empty where git is missing, or fails."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _git(*arguments: str) -> None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise Missing(f"git cannot be started: {error}", "Install git, or import a folder.") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise CommandError(f"The repository cannot be fetched: {said[-1]}", "See whether git clone of it works here.")
