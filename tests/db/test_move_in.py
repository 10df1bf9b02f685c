"""Moving in: a runner lists root modules, and the chosen ones become modules."""

import base64
import hashlib
import json
from typing import Any

import pytest

from tests.db.world import Organization, Runner, refused, this

URL = "https://git.example.com/team/Old.Infra.git"
ROOTS = [
    {"folder": "net", "path": "old/net", "engine": "terraform", "backend": "s3", "required_version": "~> 1.5",
     "workspaces": [], "problem": ""},
    {"folder": "", "path": "old/old-infra", "engine": "tofu", "backend": "", "required_version": "", "workspaces": [],
     "problem": ""},
    {"folder": "live", "path": "old/live", "engine": "terragrunt", "backend": "", "required_version": "",
     "workspaces": [], "problem": "It names no source."},
]  # fmt: skip


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True, capacity=5)


def ask(org: Organization, **source: Any) -> dict[str, Any]:
    spec = {"group": "old", **source}
    made: dict[str, Any] = org.member("operator").call("request_survey", p_org=org.id, p_source=spec)
    return made


def listed(org: Organization, number: int) -> dict[str, Any]:
    found: dict[str, Any] = org.owner.call("survey", p_org=org.id, p_number=number)
    return found


def test_a_runner_lists_root_modules_and_the_chosen_ones_are_created(org: Organization, runner: Runner) -> None:
    made = ask(org, url=URL, ref="main")
    with refused("RY409", f"Job {made['number']} has not listed root modules."):
        org.owner.call("bring_modules", p_job=made["id"], p_folders=["net"])
    job = runner.claim_one()
    asked = {"url": URL, "ref": "main", "group": "old", "name": "old-infra"}
    assert (job["type"], job["payload"]["survey"]) == ("RESOLVE", asked)
    runner.finish(job, p_result={"roots": ROOTS})
    assert [root["module_id"] for root in listed(org, made["number"])["roots"]] == [None, None, None]
    with refused("RY403"):
        org.member("viewer").call("bring_modules", p_job=made["id"], p_folders=["net"])
    with refused("RY422", '"live" cannot come: It names no source.'):
        org.owner.call("bring_modules", p_job=made["id"], p_folders=["net", "live"])
    with refused("RY422", "A folder that was named is not a root module of this reading."):
        org.owner.call("bring_modules", p_job=made["id"], p_folders=["net", "elsewhere"])
    done = org.owner.call("bring_modules", p_job=made["id"], p_folders=["net", ""])
    assert [(each["path"], each["engine"], each["backend"]) for each in done] == [
        ("old/net", "terraform", "s3"), ("old/old-infra", "tofu", ""),
    ]  # fmt: skip
    rows = org.owner.rows("select source, engine_version from public.modules where org_id = %s order by path", org.id)
    assert rows == [({"url": URL, "ref": "main", "subfolder": "net"}, "~> 1.5"), ({"url": URL, "ref": "main"}, None)]
    org.owner.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=done[0]["id"], p_options={"bring_state": True})
    brought = {"serial": 3, "lineage": "l", "resources": 2, "backend": "s3"}
    runner.finish(runner.claim_one(), p_result={"brought_state": brought}, p_plan_summary={"has_changes": False})
    plan = listed(org, made["number"])["roots"][0]["plan"]
    assert (plan["status"], plan["brought"], plan["summary"]) == ("SUCCEEDED", brought, {"has_changes": False})


def test_an_archives_modules_keep_their_files(org: Organization, runner: Runner) -> None:
    body = b"packed"
    archive = {"name": "Infra-1.tar.gz", "archive": base64.b64encode(body).decode()}
    with refused("RY422", "The archive is not what its SHA-256 says"):
        ask(org, **archive, sha256="0" * 64)
    made = ask(org, **archive, sha256=hashlib.sha256(body).hexdigest())
    job = runner.claim_one()
    assert job["payload"]["survey"]["name"] == "infra-1"
    sent = runner.call("worker_get_artifact", **this(job, p_name="source"))
    assert base64.b64decode(sent["body_base64"]) == body
    files = json.dumps({"net": {"main.tf": "# net"}, "": {"main.tf": "# top"}}).encode()
    runner.call("worker_put_artifact", **this(job, p_name="files.json", p_body_base64=base64.b64encode(files).decode(),
                p_sha256=hashlib.sha256(files).hexdigest()))  # fmt: skip
    runner.finish(job, p_result={"roots": ROOTS})
    org.owner.call("bring_modules", p_job=made["id"], p_folders=["net", ""])
    assert org.owner.rows("select source from public.modules where org_id = %s order by path", org.id) == [
        {"files": {"main.tf": "# net"}}, {"files": {"main.tf": "# top"}},
    ]  # fmt: skip


def test_a_reading_needs_a_group_and_one_source(org: Organization) -> None:
    for wrong in (
        {},
        {"url": URL, "archive": "", "sha256": ""},
        {"url": URL, "group": ""},
        {"url": URL, "ref": "x" * 201},
    ):
        with refused("RY422", "A reading needs a group"):
            ask(org, **wrong)
    with refused("RY422", "The address contains a password."):
        ask(org, url="https://me:secret@git.example.com/infra.git")
    with refused("RY422", "The archive is not base64."):
        ask(org, name="x", archive="§", sha256="x")
    with refused("RY403"):
        org.member("viewer").call("request_survey", p_org=org.id, p_source={"group": "old", "url": URL})
    with refused("RY404", "Job 999 lists no root modules."):
        listed(org, 999)
