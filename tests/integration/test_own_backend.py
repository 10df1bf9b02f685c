"""Modules whose code names a backend: refused until somebody chose, brought in with proof, or left where they are."""

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker_bench import Bench
from tests.support.extent import sampled
from tests.support.own_backend import OwnBackend, run_bucket, run_own_backend

CODE = """
variable "who" { default = "world" }
resource "terraform_data" "greeting" { input = "hello ${var.who}" }
resource "terraform_data" "many" {
  count = 2
  input = count.index
}
output "greeting" { value = terraform_data.greeting.output }
"""
LOCAL = """
terraform {
  backend "local" {}
}
"""
HTTP = """
terraform {
  backend "http" {
    address        = "%s"
    lock_address   = "%s"
    unlock_address = "%s"
  }
}
"""
S3 = """
terraform {
  backend "s3" {
    bucket                      = "states"
    key                         = "%s.tfstate"
    region                      = "eu-west-1"
    access_key                  = "test"
    secret_key                  = "test"
    endpoints                   = { s3 = "%s" }
    use_path_style              = true
    use_lockfile                = true
    skip_credentials_validation = true
    skip_metadata_api_check     = true
    skip_requesting_account_id  = true
    skip_region_validation      = true
    skip_s3_checksum            = true
  }
}
"""


@dataclass
class Existing:
    """Code with a backend and a state that its engine wrote there."""

    files: dict[str, str]
    kind: str
    state: Callable[[], bytes]

    @property
    def serial(self) -> int:
        return int(json.loads(self.state())["serial"])

    @property
    def lineage(self) -> str:
        return str(json.loads(self.state())["lineage"])


def tofu(bench: Bench, folder: Path, *arguments: str) -> str:
    """Run the engine as its people did before."""
    done = subprocess.run(
        [str(bench.tofu), *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=300
    )
    return done.stdout


def applied(bench: Bench, folder: Path, backend: str) -> dict[str, str]:
    """Apply the code with its own backend; its files."""
    folder.mkdir(parents=True)
    files = {"main.tf": CODE, "backend.tf": backend}
    for name, text in files.items():
        (folder / name).write_text(text)
    tofu(bench, folder, "init", "-input=false")
    tofu(bench, folder, "apply", "-input=false", "-auto-approve")
    return files


@pytest.fixture
def own() -> Iterator[OwnBackend]:
    with run_own_backend() as started:
        yield started


@pytest.fixture
def bucket() -> Iterator[Any]:
    with run_bucket() as client:
        yield client


@pytest.fixture
def over_http(served: Bench, own: OwnBackend, tmp_path: Path) -> Existing:
    files = applied(served, tmp_path / "code", HTTP % (own.url, own.url, own.url))
    own.requests.clear()
    return Existing(files, "http", lambda: own.state)


@pytest.fixture(params=sampled(["local", "http", "s3"], 1))
def existing(request: pytest.FixtureRequest, served: Bench, tmp_path: Path) -> Existing:
    if request.param == "http":
        found: Existing = request.getfixturevalue("over_http")
        return found
    if request.param == "local":
        files = applied(served, tmp_path / "code", LOCAL)
        text = (tmp_path / "code" / "terraform.tfstate").read_text()
        return Existing({**files, "terraform.tfstate": text}, "local", text.encode)
    s3: Any = request.getfixturevalue("bucket")
    files = applied(served, tmp_path / "code", S3 % (tmp_path.name, s3.meta.endpoint_url))
    return Existing(
        files, "s3", lambda: bytes(s3.get_object(Bucket="states", Key=f"{tmp_path.name}.tfstate")["Body"].read())
    )


def module_of(bench: Bench, files: dict[str, str], **spec: Any) -> str:
    return bench.module(source={"files": files}, **spec)


def test_a_state_is_brought_in_planned_changed_and_the_old_one_stays(served: Bench, existing: Existing) -> None:
    old = existing.state()
    module = module_of(served, existing.files)
    for kind in ("PLAN", "APPLY", "DESTROY"):
        refused = served.wait_job(served.enqueue(kind, module))
        assert refused["error"]["code"] == "backend_undecided", refused["error"]
        assert f'the backend "{existing.kind}" (backend.tf)' in refused["error"]["message"]
        for way in ("runyard state import apps/web/", "runyard state keep-own", "runyard state start-empty"):
            assert way in refused["error"]["hint"]
    brought = served.finished("PLAN", module, bring_state=True)
    assert brought["plan_summary"]["has_changes"] is False, served.log_of(brought["id"])
    assert brought["result"]["brought_state"] == {
        "backend": existing.kind, "serial": existing.serial, "lineage": existing.lineage, "resources": 3,
    }  # fmt: skip
    info = served.rpc("state_info", p_module=module)
    assert (info["serial"], info["lineage"], info["lock"]) == (existing.serial, existing.lineage, None)
    served.rpc("update_module", p_module=module, p_spec={"inputs": {"who": "Mary"}})
    changed = served.finished("APPLY", module)
    assert (changed["plan_summary"]["update"], changed["plan_summary"]["create"]) == (1, 0)
    assert served.rpc("state_info", p_module=module)["serial"] > existing.serial
    assert existing.state() == old


def test_bringing_a_state_in_writes_nothing_but_a_lock_and_shows_no_password(
    served: Bench, own: OwnBackend, over_http: Existing
) -> None:
    module = module_of(served, over_http.files)
    served.finished("PLAN", module, bring_state=True)
    assert "POST" not in own.methods
    assert own.methods.count("LOCK") == own.methods.count("UNLOCK") == 1
    assert {authorization for _, authorization in own.requests} == {""}


@pytest.mark.slow
def test_a_locked_state_is_not_brought_in(served: Bench, own: OwnBackend, over_http: Existing) -> None:
    own.lock = b'{"ID": "1", "Operation": "OperationTypeApply", "Who": "somebody@elsewhere", "Created": "2026-01-01T00:00:00Z"}'
    module = module_of(served, over_http.files)
    refused = served.wait_job(served.enqueue("PLAN", module, bring_state=True))
    assert (refused["status"], refused["error"]["code"]) == ("FAILED", "engine_failed")
    assert "Error acquiring the state lock" in refused["error"]["message"]
    assert "somebody@elsewhere" in served.log_of(refused["id"])
    assert served.rpc("state_info", p_module=module)["serial"] is None


def test_an_empty_backend_has_no_state_to_bring_in(served: Bench, own: OwnBackend) -> None:
    module = module_of(served, {"main.tf": CODE, "backend.tf": HTTP % (own.url, own.url, own.url)})
    refused = served.wait_job(served.enqueue("PLAN", module, bring_state=True))
    assert refused["error"]["code"] == "no_state"
    assert set(own.methods) == {"GET"}


def test_a_module_keeps_its_own_backend(served: Bench, own: OwnBackend, over_http: Existing) -> None:
    module = module_of(served, over_http.files, backend="own")
    assert served.finished("PLAN", module)["plan_summary"]["has_changes"] is False
    served.rpc("update_module", p_module=module, p_spec={"inputs": {"who": "Mary"}})
    plan = served.finished("PLAN", module)
    before = over_http.serial
    done = served.finished("APPLY", module, plan_job_id=plan["id"])
    assert done["result"]["outputs"]["greeting"]["value"] == "hello Mary"
    assert over_http.serial > before
    assert own.lock == b""
    assert {authorization for _, authorization in own.requests} == {""}
    assert served.rpc("state_info", p_module=module)["serial"] is None


def test_a_module_starts_empty_once_somebody_chose_so(served: Bench, own: OwnBackend, over_http: Existing) -> None:
    module = module_of(served, over_http.files, backend="runyard")
    plan = served.finished("PLAN", module)
    assert plan["plan_summary"]["create"] == 3
    assert own.requests == []
    assert 'the backend "http" (backend.tf) in the code is not used' in served.log_of(plan["id"])


@pytest.mark.parametrize(
    "files",
    [
        {"backend.tf.json": '{"terraform": [{"backend": {"pg": {}}}]}'},
        {"cloud.tofu": 'terraform {\n  cloud {\n    organization = "x"\n  }\n}'},
        {"terraform.tfstate": '{"version": 4, "serial": 1, "lineage": "l", "resources": []}'},
    ],
)
def test_every_way_to_name_a_backend_is_seen(served: Bench, files: dict[str, str]) -> None:
    module = module_of(served, {"main.tf": CODE, **files})
    refused = served.wait_job(served.enqueue("PLAN", module))
    assert refused["error"]["code"] == "backend_undecided", refused["error"]


def test_a_backend_that_a_hook_writes_is_seen(served: Bench) -> None:
    hook = f"cat > generated.tf <<'END'{LOCAL}END"
    module = module_of(served, {"main.tf": CODE}, hooks={"before_init": hook})
    refused = served.wait_job(served.enqueue("PLAN", module))
    assert "(generated.tf)" in refused["error"]["message"]


def test_an_override_file_in_the_code_cannot_move_the_state_elsewhere(served: Bench) -> None:
    files = {"main.tf": CODE, "zz_override.tf": LOCAL}
    module = module_of(served, files, backend="runyard")
    refused = served.wait_job(served.enqueue("APPLY", module))
    assert refused["error"]["code"] == "backend_override", refused["error"]


def test_an_encrypted_state_is_not_stored_in_the_clear(served: Bench, own: OwnBackend, over_http: Existing) -> None:
    encryption = 'terraform {\n  encryption {\n    method "unencrypted" "none" {}\n  }\n}'
    module = module_of(served, {**over_http.files, "encryption.tf": encryption})
    refused = served.wait_job(served.enqueue("PLAN", module, bring_state=True))
    assert refused["error"]["code"] == "state_encrypted"
    assert own.requests == []


def test_a_retry_after_a_failed_first_plan_uses_the_state_that_was_brought_in(
    served: Bench, over_http: Existing
) -> None:
    module = module_of(served, over_http.files, inputs={"who": "Mary"}, hooks={"before_plan": "exit 1"})
    failed = served.wait_job(served.enqueue("PLAN", module, bring_state=True))
    assert (failed["status"], failed["error"]["code"]) == ("FAILED", "hook_failed")
    assert served.rpc("state_info", p_module=module)["serial"] == over_http.serial
    again = served.rpc("retry_job", p_job=failed["id"])
    assert served.wait_job(int(again["id"]))["error"]["code"] == "hook_failed", "it comes as far as the first time"
    served.rpc("update_module", p_module=module, p_spec={"hooks": {}})
    assert served.finished("PLAN", module)["plan_summary"]["update"] == 1
