"""The pipeline's command, against the real function."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stack.settings import PROJECT
from tests.integration.edge.conftest import RELEASE_TOKEN, Edge
from tests.integration.edge.people import Person
from tests.integration.edge.test_edge_functions_release import fresh_version
from tests.unit.worker.dispatch.serving import Call, serve


@pytest.fixture
def url(edge: Edge) -> Iterator[str]:
    """The functions below /functions/v1, as a project offers them."""

    def forward(call: Call) -> tuple[int, Any]:
        # An address of this file's own, because the neighbours use up what one address may ask.
        headers = {"authorization": call.headers["authorization"], "x-forwarded-for": "203.0.113.77"}
        answer = httpx.post(f"{edge.url}/{call.parts[0]}", json=call.body, headers=headers, timeout=60)
        return answer.status_code, answer.json()

    with serve({"POST /functions/v1/(.+)": forward}) as address:
        yield f"http://{address}"


def publish(url: str, *arguments: str, token: str = RELEASE_TOKEN) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/publish_release.py", *arguments]
    env = {"SUPABASE_URL": url, "RELEASE_PUBLISH_TOKEN": token}
    return subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False, timeout=120)


def test_a_tag_becomes_a_release_with_checksums(url: str, person: Person, tmp_path: Path) -> None:
    version = fresh_version()
    file, notes = tmp_path / "runyard-worker.whl", tmp_path / "notes.md"
    file.write_bytes(b"wheel")
    notes.write_text("## Faster\n")
    link = "https://example.com/runyard-worker.whl"
    options = ("--channel", "beta", "--notes", str(notes), "--breaking", "--artifact", f"{file}={link}")
    done = publish(url, f"v{version}", *options)
    assert (done.returncode, done.stdout.strip()) == (0, f"published: {version}"), done.stderr
    table = f"{person.stack.url}/rest/v1/worker_releases?version=eq.{version}"
    [row] = httpx.get(table, headers=person.headers, timeout=30).json()
    assert row["notes"] == "## Faster"
    assert row["is_breaking"] is True
    assert row["artifacts"][0]["sha256"] == hashlib.sha256(b"wheel").hexdigest()
    done = publish(url, version, "--withdraw", "It loses logs")
    assert (done.returncode, done.stdout.strip()) == (0, f"withdrawn: {version}")


def test_refusals_are_reported_without_the_credential(url: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("x")
    wrong = publish(url, "1.0.0", "--notes", str(notes), token="wrong-credential")
    assert wrong.returncode == 1
    assert "refused with 401" in wrong.stderr
    assert "wrong-credential" not in wrong.stderr
    assert publish("http://127.0.0.1:9", "1.0.0", "--notes", str(notes)).returncode == 1
    assert publish(url, "1.0.0", "--artifact", "absent.whl").returncode == 2
    unknown = publish(url, "99.98.97")
    assert unknown.returncode == 2
    assert "no section for 99.98.97" in unknown.stderr
