"""Moving in as the page does it: a real runner reads a real repository or archive, and the states come with proof."""

import base64
import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cli_state import commit
from tests.integration.test_own_backend import CODE, HTTP, LOCAL, S3, applied, tofu
from tests.integration.worker_bench import Bench
from tests.support.own_backend import OwnBackend, run_bucket, run_own_backend


@pytest.fixture
def own() -> Iterator[OwnBackend]:
    with run_own_backend() as started:
        yield started


@pytest.fixture
def bucket() -> Iterator[Any]:
    with run_bucket() as client:
        yield client


def read(bench: Bench, **source: Any) -> tuple[int, list[dict[str, Any]]]:
    """List root modules as the runner; return the reading's job and its roots."""
    group = f"moved-{uuid.uuid4().hex[:6]}"
    made = bench.rpc("request_survey", p_org=bench.org, p_source={"group": group, **source})
    ended = bench.wait_job(made["id"])
    assert ended["status"] == "SUCCEEDED", ended["error"]
    return made["id"], bench.rpc("survey", p_org=bench.org, p_number=made["number"])["roots"]


def test_a_repository_moves_in_is_changed_and_moves_out(
    served: Bench, own: OwnBackend, bucket: Any, tmp_path: Path
) -> None:
    top = tmp_path / "old-infra"
    applied(served, top / "files", LOCAL)
    applied(served, top / "net", HTTP % (own.url, own.url, own.url))
    applied(served, top / "shop", S3 % ("shop", bucket.meta.endpoint_url))
    for rest in top.rglob(".terraform"):
        shutil.rmtree(rest)

    def old_states() -> list[bytes]:
        kept = bucket.get_object(Bucket="states", Key="shop.tfstate")["Body"].read()
        return [(top / "files" / "terraform.tfstate").read_bytes(), own.state, kept]

    before = old_states()
    job, roots = read(served, url=commit(top))
    assert [(each["folder"], each["backend"], each["engine"]) for each in roots] == [
        ("files", "local", "tofu"), ("net", "http", "tofu"), ("shop", "s3", "tofu"),
    ]  # fmt: skip
    made = served.rpc("bring_modules", p_job=job, p_folders=[each["folder"] for each in roots])
    for module, text in zip(made, before, strict=True):
        brought = served.finished("PLAN", module["id"], bring_state=True)
        assert brought["plan_summary"]["has_changes"] is False, served.log_of(brought["id"])
        assert brought["result"]["brought_state"]["lineage"] == json.loads(text)["lineage"]
    changed = made[2]["id"]
    served.finished("APPLY", changed, variables={"who": "everybody"})
    newest = served.rpc("state_info", p_module=changed)["serial"]
    state = served.rpc("state_version", p_module=changed, p_serial=newest)["body"]
    assert "hello everybody" in state
    assert old_states() == before
    away = tmp_path / "away"
    away.mkdir()
    (away / "main.tf").write_text(CODE)
    (away / "terraform.tfstate").write_text(state)
    tofu(served, away, "init", "-input=false")
    assert "No changes" in tofu(served, away, "plan", "-input=false", "-no-color", "-var=who=everybody")


def test_an_archive_moves_in_with_its_files_and_its_state(served: Bench, tmp_path: Path) -> None:
    inside = tmp_path / "in" / "infra-main"
    applied(served, inside / "web", LOCAL)
    (inside / "caller").mkdir()
    (inside / "caller" / "main.tf").write_text('module "shared" {\n  source = "../shared"\n}\n')
    (inside / "shared").mkdir()
    (inside / "shared" / "main.tf").write_text("")
    for rest in inside.rglob(".terraform"):
        shutil.rmtree(rest)
    packed = Path(shutil.make_archive(str(tmp_path / "infra"), "gztar", tmp_path / "in")).read_bytes()
    sent = {"archive": base64.b64encode(packed).decode(), "sha256": hashlib.sha256(packed).hexdigest()}
    job, roots = read(served, name="infra.tar.gz", **sent)
    assert [(each["folder"], bool(each["problem"])) for each in roots] == [("caller", True), ("web", False)]
    assert "calls folders outside of it" in roots[0]["problem"]
    (made,) = served.rpc("bring_modules", p_job=job, p_folders=["web"])
    brought = served.finished("PLAN", made["id"], bring_state=True)
    assert (brought["plan_summary"]["has_changes"], brought["result"]["brought_state"]["resources"]) == (False, 3)
