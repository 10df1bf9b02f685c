"""`runyard-worker doctor` with a real project."""

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import bcrypt

from stack.settings import PROJECT
from tests.integration.worker_bench import Bench, bench

__all__ = ["bench"]


def findings(bench: Bench, worker: tuple[str, str], home: Path, **changes: str) -> tuple[int, dict[str, Any]]:
    """Run the doctor as an operator would, and return its exit code and findings by name."""
    home.mkdir(exist_ok=True)
    env = bench.environment(worker, "doctor", home) | changes
    command = [sys.executable, "-m", "worker.cli", "doctor", "--json"]
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout, done.stderr
    assert worker[1] not in done.stdout + done.stderr
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)}


def test_all_is_well_and_a_connected_runner_is_not_disturbed(bench: Bench, tmp_path: Path) -> None:
    worker = bench.register()
    process = bench.start_worker(worker)
    bench.online(worker)
    code, found = findings(bench, worker, tmp_path / "home")
    assert code == 0, found
    for name in ("URL", "Clock", "Credential", "Publishable key", "Realtime", "Engines", "Disk"):
        assert found[name]["verdict"] == "ok", found[name]
    assert process.process.poll() is None
    names = [row["name"] for row in bench.rows("worker_instances", worker_id=worker[0])]
    assert names == [process.instance], "the doctor leaves no instance behind"


def test_a_wrong_token_is_found_with_its_remedy(bench: Bench, tmp_path: Path) -> None:
    worker = bench.register()
    code, found = findings(bench, (worker[0], "ryw_wrong"), tmp_path / "home")
    assert code == 1
    assert found["Credential"]["verdict"] == "failed"
    assert "rotate the token" in found["Credential"]["remedy"]
    assert found["Realtime"]["verdict"] == "skipped"


def test_the_projects_own_hint_is_the_remedy(bench: Bench, tmp_path: Path) -> None:
    worker = bench.register()
    secret = "rys_" + secrets.token_urlsafe(32)
    hashed = bcrypt.hashpw(secret.encode(), bcrypt.gensalt(8)).decode()
    account = bench.rpc(
        "create_service_account", p_org=bench.org, p_spec={"name": "nobody"}, p_secret_hash=hashed, p_secret_hint="x"
    )
    by_account = {"WORKER_TOKEN": "", "WORKER_CLIENT_ID": account["client_id"], "WORKER_CLIENT_SECRET": secret}
    _, found = findings(bench, worker, tmp_path / "home", **by_account)
    assert found["Credential"]["verdict"] == "failed"
    assert "functions deploy" not in found["Credential"]["remedy"]
    assert "not assigned to this runner" in found["Credential"]["seen"]
    assert "--service-account" in found["Credential"]["remedy"]
    _, wrong = findings(bench, worker, tmp_path / "home", **by_account | {"WORKER_CLIENT_SECRET": "rys_wrong"})
    assert wrong["Credential"]["verdict"] == "failed"
    assert "WORKER_TOKEN" not in wrong["Credential"]["remedy"]
