"""The sources of a runner: the files of a release with their checksums, or a build from a clone."""

import re
import shlex
from collections.abc import Iterable
from typing import TypedDict
from urllib.parse import urlsplit

from app.frame.versions import latest
from app.ui.view import Row

BINARY = "/usr/local/bin/runyard-worker"
# In a clone. The newest one: a file that brings its own Python, or a .pex where none could be fetched.
BUILD = f"make worker-binary\nsudo install -m 0755 \\\n  $(ls -t dist/runyard-worker-* | head -n 1) \\\n  {BINARY}\n"
_SHA256 = re.compile(r"[0-9a-f]{64}")


class RunnerFile(TypedDict):
    """A file of a release, and the commands that fetch, check and install it."""

    name: str
    url: str
    sha256: str
    commands: str


NO_FILE: RunnerFile = {"name": "", "url": "", "sha256": "", "commands": ""}


def newest_files(releases: Iterable[Row]) -> list[RunnerFile]:
    rows = list(releases)
    version = latest(rows)
    return [file for row in rows if row.get("version") == version for file in files_of(row)]


def files_of(release: Row) -> list[RunnerFile]:
    """List a release's files; one without an https address or a checksum is nothing to run on a machine."""
    return [_file(row) for row in release.get("artifacts") or [] if _is_sound(row)]


def _is_sound(row: Row) -> bool:
    address = urlsplit(str(row.get("url") or ""))
    return bool(
        row.get("name")
        and address.scheme == "https"
        and address.hostname
        and _SHA256.fullmatch(str(row.get("sha256") or ""))
    )


def _file(row: Row) -> RunnerFile:
    name, url, sha256 = str(row["name"]), str(row["url"]), str(row["sha256"])
    install = _install_wheel if name.endswith(".whl") else _install_binary
    return {"name": name, "url": url, "sha256": sha256, "commands": install(url, sha256)}


def _install_binary(url: str, sha256: str) -> str:
    return (
        f"curl -fLo runyard-worker {shlex.quote(url)}\n"
        f"echo '{sha256}  runyard-worker' | sha256sum --check &&\n"
        f"  sudo install -m 0755 runyard-worker {BINARY}\n"
    )


def _install_wheel(url: str, sha256: str) -> str:
    # pip itself compares the file with the checksum in the address.
    return (
        "sudo python3 -m venv /opt/runyard\n"
        f"sudo /opt/runyard/bin/pip install --upgrade {shlex.quote(f'{url}#sha256={sha256}')}\n"
        f"sudo ln -sf /opt/runyard/bin/runyard-worker {BINARY}\n"
    )
