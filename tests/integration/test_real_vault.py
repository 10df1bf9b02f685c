"""A job's identity and references in a real Vault: it reads the issuer's keys and decides by the claims."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.engines.cache import cached
from tests.integration.worker_bench import Bench, bench
from tests.support.must import unavailable
from tests.support.ports import free_port
from tests.support.providers import VAULT
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

__all__ = ["bench"]
ROOT = "root-of-the-test"
SECRET = "kept-in-vault-4711"
# What the author of a module can do: read with the job's own token, and try the role of the other phase.
SCRIPT = """
import json, os, urllib.request, urllib.error
def ask(path, body=None):
    headers = {"X-Vault-Token": os.environ["VAULT_TOKEN"]}
    data = json.dumps(body).encode() if body else None
    address = os.environ["VAULT_ADDR"] + "/v1/" + path
    return json.load(urllib.request.urlopen(urllib.request.Request(address, data, headers)))
print("length", len(ask("secret/data/team")["data"]["data"]["token"]))
token = open(os.environ["RUNYARD_ID_TOKEN_FILE_VAULT"]).read()
try:
    ask("auth/jwt/login", {"role": "apply", "jwt": token})
    print("STOLEN")
except urllib.error.HTTPError as error:
    print("refused", error.code)
"""


@dataclass(frozen=True)
class Vault:
    """A Vault in memory, used as its root."""

    address: str

    def write(self, path: str, **body: Any) -> None:
        answer = httpx.post(f"{self.address}/v1/{path}", json=body, headers={"X-Vault-Token": ROOT}, timeout=60)
        assert answer.is_success, answer.text

    def is_up(self) -> bool:
        try:
            return httpx.get(f"{self.address}/v1/sys/health", timeout=5).is_success
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    program = cached(VAULT)
    if program is None:
        unavailable("vault", "no Vault is here; python -m tests.support.providers vault builds it")
    address = f"127.0.0.1:{free_port()}"
    log = tmp_path_factory.mktemp("vault") / "log"
    with log.open("wb") as output, subprocess.Popen([program, address, ROOT], stdout=output, stderr=output) as server:
        found = Vault(f"http://{address}")
        try:
            wait_until(found.is_up)
            found.write("sys/mounts/secret", type="kv", options={"version": "2"})
            yield found
        finally:
            server.terminate()


def trust(vault: Vault, bench: Bench) -> None:
    """Let Vault trust the issuer: a role for each phase, for the modules below apps."""
    issuer = f"{bench.project.url}/functions/v1/job-identity"
    vault.write("sys/auth/jwt", type="jwt")
    vault.write("auth/jwt/config", oidc_discovery_url=issuer, bound_issuer=issuer)
    vault.write("sys/policies/acl/team", policy='path "secret/data/team" { capabilities = ["read"] }')
    vault.write("secret/data/team", data={"token": SECRET})
    for phase in ("plan", "apply"):
        wanted = {"sub": f"organization:{bench.org}:module:apps/*:phase:{phase}"}
        vault.write(
            f"auth/jwt/role/{phase}", role_type="jwt", user_claim="sub", bound_audiences=[vault.address],
            bound_claims_type="glob", bound_claims=wanted, token_policies=["team"], token_ttl="10m",
        )  # fmt: skip


@pytest.mark.slow
def test_vault_trusts_the_issuer_and_distinguishes_phases(vault: Vault, bench: Bench, tmp_path: Path) -> None:
    trust(vault, bench)
    script = bench.folder / "ask.py"
    script.write_text(SCRIPT)
    files = {"main.tf": 'variable "kept" { default = "" }\noutput "length" { value = length(var.kept) }\n'}
    module = bench.module(source={"files": files}, hooks={"before_plan": f"{sys.executable} {script}"})
    path = bench.rows("modules", id=module)[0]["path"]
    settings = {"address": vault.address, "plan_role": "plan", "apply_role": "apply"}
    bench.rpc("attach_identity", p_org=bench.org, p_path="apps", p_spec={"kind": "vault", "settings": settings})
    environment = {**bench.project.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token}
    terminal = Terminal(tmp_path / "config", environment)
    key = tmp_path / "sealing.key"
    label = terminal.json("variables", "create-key", str(key))["label"]
    assert terminal.run("variables", "refer", path, "kept", "vault://secret/data/team#token").returncode == 0
    shown = ",".join(str(each) for each in (bench.folder, sys.prefix, sys.base_prefix))
    runner = bench.runner(
        VAULT_ADDR=vault.address, VAULT_TOKEN=ROOT, RUNYARD__SEALING__KEYFILES=str(key),
        RUNYARD__SEALING__ALLOWEDSOURCES="vault://secret/data/*", RUNYARD__ENGINE__ISOLATION__READONLYPATHS=shown,
    )  # fmt: skip
    bench.rpc("update_worker", p_worker=runner.worker_id, p_options={"labels": [label]})

    tested = terminal.run("identities", "test", module, "--exchange")
    assert "vault  Vault accepts it for the role plan" in tested.stdout, tested.stderr
    planned = bench.finished("PLAN", module)
    log = bench.log_of(planned["id"])
    assert f"length {len(SECRET)}" in log
    assert "refused 4" in log
    assert "STOLEN" not in log
    applied = bench.finished("APPLY", module, plan_job_id=planned["id"])
    assert applied["result"]["outputs"]["length"]["value"] == len(SECRET)
    assert SECRET not in bench.log_of(planned["id"]) + bench.log_of(applied["id"])

    vault.write("auth/jwt/role/plan", role_type="jwt", user_claim="sub", bound_audiences=["other"], token_ttl="10m")
    refused = bench.wait_job(bench.enqueue("OUTPUT", module, test_identities=True))
    assert refused["status"] == "FAILED"
    assert "Vault answered 400" in refused["error"]["message"]
