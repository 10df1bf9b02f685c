"""Two machines that each build the dashboard's page: behind one address either serves what the other's page names."""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from cli.dashboard.serve import ORDERED_STATES, REPRODUCIBLE
from stack.settings import PROJECT

# The one file that contains the address of the dashboard.
ADDRESS_FILE = "assets/reflex-env-"


def built(project: Path, home: Path, **variables: str) -> dict[str, str]:
    """Build the page of a clone; its files with their digests."""
    command = [sys.executable, "-m", "cli", "dashboard", "--build"]
    environment = os.environ | {"RUNYARD_HOME": str(home), **variables}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    client = home / "web" / "build" / "client"
    files = {str(file.relative_to(client)): file for file in client.rglob("*") if file.is_file()}
    return {name: "" if name.startswith(ADDRESS_FILE) else digest(file) for name, file in files.items()}


def digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def copied(place: Path) -> Path:
    """The clone in another folder, with other times of its files."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (PROJECT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROJECT / name, place / name)
    return place


# The file of the page that lists the states, with Reflex' sets of states replaced by lists: in either order.
CONTEXTS = """
from app.app import app
from reflex.compiler import compiler
from reflex.state import State
from reflex_base.registry import RegistrationContext
found = RegistrationContext.get().base_state_substates
texts = []
for is_backwards in (False, True):
    for name, states in found.items():
        found[name] = sorted(states, key=lambda each: each.get_full_name(), reverse=is_backwards)
    texts.append(compiler.compile_contexts(State, None)[1])
print(*texts, sep="=====")
"""


def test_the_page_is_the_same_in_whatever_order_the_states_lie_in_memory() -> None:
    environment = os.environ | REPRODUCIBLE | {"SUPABASE_URL": "http://a.example", "SUPABASE_PUBLISHABLE_KEY": "key"}
    command = [sys.executable, "-c", ORDERED_STATES + CONTEXTS]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    one, other = done.stdout.strip().split("=====")
    assert "local_storage" in one
    assert one == other


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_builds_of_the_same_sources_agree(tmp_path: Path) -> None:
    mine = built(PROJECT, tmp_path / "here")
    # Nothing is shared with the other machine, and its settings are others.
    others = {"RUNYARD_CACHE": str(tmp_path / "cache"), "RUNYARD_PORT_OFFSET": "77", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    others["RUNYARD_DASHBOARD_URL"] = "https://runyard.example.com:8443"
    theirs = built(copied(tmp_path / "elsewhere" / "clone"), tmp_path / "there", **others)
    assert any(name.startswith(ADDRESS_FILE) for name in mine)
    assert theirs == mine
