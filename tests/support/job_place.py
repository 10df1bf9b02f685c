"""A runner's folders with two jobs in them, and a way to run a script as one of these jobs."""

import asyncio
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from worker.children.child import Child, Command
from worker.children.isolation import Isolation, find_isolation
from worker.settings.dispatcher import IsolationWay
from worker.settings.load import load_settings
from worker.settings.model import Settings

TOKEN = "ryw_the_runners_own_token"
SANDBOXES = [IsolationWay.BUBBLEWRAP, IsolationWay.NAMESPACES]


@dataclass
class Place:
    """A runner's folders and a job's in them."""

    base: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.base / "work/.temp/job-1"

    @property
    def other(self) -> Path:
        return self.base / "work/.temp/job-2"

    @property
    def token(self) -> Path:
        return self.base / "secrets/WORKER_TOKEN"

    def settings(self, way: str, **more: str) -> Settings:
        return load_settings(environ={**self.environ(way), **more})

    def environ(self, way: str) -> dict[str, str]:
        return {
            "WORKER_ID": str(uuid.UUID(int=1)),
            "SUPABASE_URL": "http://127.0.0.1:1",
            "RUNYARD_SECRETS": str(self.token.parent),
            "RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": str(self.base / "work"),
            "RUNYARD__ENGINE__ISOLATION__WAYS": way,
            "PATH": os.environ["PATH"],
            "HOME": str(self.base / "home"),
            **self.variables,
        }

    def isolation(self, way: str, **more: str) -> Isolation:
        found = find_isolation(self.settings(way, **more), {**self.environ(way), **more})
        if found.way is None:
            pytest.skip(found.why)
        return found

    def command(self, *argv: str, **env: str) -> Command:
        own = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.base / "home"), **env}
        return Command(argv, self.root, own)


@pytest.fixture
def place() -> Iterator[Place]:
    """Folders that other users may pass through, as a machine's own are."""
    base = Path(tempfile.mkdtemp(prefix="runyard-isolation-"))
    base.chmod(0o755)
    made = Place(base)
    for folder in (made.token.parent, base / "home", base / "shared"):
        folder.mkdir(mode=0o700)
    for job in (made.root, made.other):
        for name in ("tmp", "home"):
            (job / name).mkdir(parents=True, mode=0o700)
        job.chmod(0o700)
    made.token.write_text(TOKEN)
    made.token.chmod(0o600)
    (base / "home/credentials").write_text("the runner's own cloud")
    (made.other / "secret.tfvars").write_text("another job's password")
    yield made
    shutil.rmtree(base, ignore_errors=True)


class Collected:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def __call__(self, data: bytes) -> None:
        self.pieces.append(data)

    @property
    def text(self) -> str:
        return b"".join(self.pieces).decode()


async def run(isolation: Isolation, place: Place, script: str, **env: str) -> tuple[int, str]:
    out = Collected()
    command = isolation.enclose(place.command("/bin/sh", "-c", script, **env), place.root)
    async with asyncio.timeout(180):
        code = await Child.start(command).run(out)
    isolation.end(place.root)
    return code, out.text


def system_python() -> str:
    """A Python that is part of the system, as an engine would be."""
    return shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
