"""Plans of a set on one page: reviewed together, applied in order, previewed across modules, and planned again after applies."""

import base64
import json
from typing import Any

import pytest

from tests.db.test_dependencies import applied, depend, state
from tests.db.test_set_order import DIAMOND, names, ordered, progress, start
from tests.db.world import Organization, Runner, World, refused, sha256, this


def review(org: Organization, made: str) -> dict[str, dict[str, Any]]:
    rows = org.owner.call("set_review", p_org=org.id, p_set=made)["rows"]
    return {row["module_path"]: row for row in rows}


def put_outputs(runner: Runner, job: dict[str, Any], values: dict[str, Any]) -> None:
    body = json.dumps(values)
    sent = {"p_name": "outputs.json", "p_body_base64": base64.b64encode(body.encode()).decode()}
    runner.call("worker_put_artifact", **this(job), **sent, p_sha256=sha256(body))


def planned(runner: Runner, job: dict[str, Any], changes: int = 1, outputs: list[dict[str, Any]] | None = None) -> None:
    """End a plan with so many new resources and these changed outputs."""
    put_outputs(runner, job, {each["name"]: each["value"] for each in outputs or [] if "value" in each})
    told = [{"name": each["name"], "is_known": "value" in each, **each} for each in outputs or []]
    summary = {"create": changes, "has_changes": bool(changes or told), "outputs": told}
    runner.finish(job, p_plan_summary=summary)


def plan_all(org: Organization, runner: Runner, changes: int = 1) -> str:
    made = start(org, "PLAN")
    while jobs := runner.claim(9):
        for job in jobs:
            planned(runner, job, changes if job["module_path"] != "a/side" else 0)
    return made


def confirm(org: Organization, made: str, *paths: str) -> dict[str, Any]:
    chosen = {"p_modules": f"{{{','.join(org.modules[path] for path in paths)}}}"} if paths else {}
    done: dict[str, Any] = org.owner.call("confirm_set", p_set=made, **chosen)
    return done


def test_reviewed_plans_are_applied_in_order_each_as_it_was_reviewed(world: World, org: Organization) -> None:
    runner = ordered(org, *DIAMOND, ("a/right", "a/side"))
    made = plan_all(org, runner)
    rows = review(org, made)
    assert {path: (row["step"], row["decision"]) for path, row in rows.items()} == {
        "a/root": (1, "apply"), "a/left": (2, "apply"), "a/right": (2, "apply"), "a/leaf": (3, "apply"), "a/side": (3, None),
    }  # fmt: skip
    assert rows["a/root"]["counts"] == {"create": 1, "update": 0, "replace": 0, "delete": 0}
    done = confirm(org, made)
    assert (done["applying"], done["approved"], done["refused"]) == (4, 0, [])
    seen = []
    while jobs := runner.claim(9):
        seen.append(names(jobs))
        for job in jobs:
            assert world.job(job["plan_job_id"])["number"] == rows[str(job["module_path"])]["job_number"]
            runner.finish(job)
    assert seen == [["a/root"], ["a/left", "a/right"], ["a/leaf"]]
    assert progress(org, done["set_id"])["status"] == "SUCCEEDED"
    assert {row["decision"] for row in review(org, made).values()} == {None}
    with refused("RY409", "No chosen plan of this set can be applied."):
        confirm(org, made)


def test_some_plans_are_applied_and_an_outdated_one_is_left_out_with_its_reason(org: Organization) -> None:
    runner = ordered(org, *DIAMOND)
    made = plan_all(org, runner)
    with refused("RY403", "your role is viewer"):
        org.member("viewer").call("confirm_set", p_set=made)
    done = confirm(org, made, "a/root", "a/left")
    with refused("RY409", "Such a set is running here."):
        confirm(org, made, "a/right")
    root = runner.claim_one()
    org.owner.call("push_state", p_module=org.modules["a/left"], p_body=state(1))
    runner.finish(root)
    [failure] = progress(org, done["set_id"])["failures"]
    assert (failure["module_path"], "The state has moved on since plan" in failure["message"]) == ("a/left", True)
    assert [path for path, row in review(org, made).items() if row["decision"] == "apply"] == ["a/right", "a/leaf"]


def test_jobs_that_wait_for_approval_are_approved_together(org: Organization) -> None:
    org.module("a/one", approvals_required=1)
    org.module("a/two", approvals_required=1)
    made = start(org)
    assert {row["decision"] for row in review(org, made).values()} == {"approve"}
    org.member("operator")
    with refused("RY409", "You requested this job; somebody else approves it."):
        confirm(org, made)
    other = org.member("operator")
    done = other.call("confirm_set", p_set=made, p_modules=f"{{{org.modules['a/one']}}}")
    assert (done["approved"], done["set_id"]) == (1, None)
    assert {path: row["status"] for path, row in review(org, made).items()} == {
        "a/one": "QUEUED", "a/two": "AWAITING_APPROVAL",
    }  # fmt: skip


@pytest.fixture
def chain(org: Organization) -> Runner:
    """A network, a site that uses two outputs of it, and a monitor that uses one of the site; the network is applied."""
    for path in ("a/net", "a/site", "a/watch"):
        org.module(path)
    runner = org.runner("r", is_assigned_to_all_modules=True, capacity=50)
    applied(org, runner, "a/net", 1, id="vpc-1", zone="z-1")
    depend(org, "a/site", "a/net", bindings={"vpc_id": "id", "zone": "zone"})
    depend(org, "a/watch", "a/site", bindings={"site": "url"})
    return runner


def bound(runner: Runner, job: dict[str, Any]) -> Any:
    return runner.call("worker_bound_values", **this(job))["values"]


def test_unchanged_output_is_planned_with_its_value_and_can_be_applied(org: Organization, chain: Runner) -> None:
    made = start(org, "PLAN")
    planned(chain, chain.claim_one(), outputs=[{"name": "other", "value": 1}])
    site = chain.claim_one()
    assert bound(chain, site) == {"vpc_id": "vpc-1", "zone": "z-1"}
    planned(chain, site)
    row = review(org, made)["a/site"]
    assert (row["is_preview"], row["decision"]) == (False, "apply")


def test_known_change_is_a_preview_that_nobody_applies(org: Organization, chain: Runner) -> None:
    org.owner.call("update_module", p_module=org.modules["a/site"], p_spec={"auto_apply": True})
    made = start(org, "PLAN")
    planned(chain, chain.claim_one(), outputs=[{"name": "id", "value": {"deep": ["vpc-2"]}}])
    site = chain.claim_one()
    assert bound(chain, site) == {"vpc_id": {"deep": ["vpc-2"]}, "zone": "z-1"}
    planned(chain, site)
    row = review(org, made)["a/site"]
    assert (row["is_preview"], row["has_changes"], row["decision"]) == (True, True, None)
    with refused(
        "RY409", f"Job {site['number']} is a preview: it has values that were not applied, and is never applied."
    ):
        org.enqueue("a/site", "APPLY", plan_job_id=site["id"])
    assert chain.claim_one()["module_path"] == "a/watch", "nothing applies it automatically"


def test_preview_is_planned_for_real_after_the_apply(world: World, org: Organization, chain: Runner) -> None:
    made = start(org, "PLAN")
    planned(chain, chain.claim_one(), outputs=[{"name": "id", "value": "vpc-2"}])
    preview = chain.claim_one()
    planned(chain, preview)
    planned(chain, chain.claim_one())
    world.sweep()
    assert progress(org, made)["finished_at"]
    confirm(org, made, "a/net")
    net = chain.claim_one()
    chain.call("worker_state_put", **this(net), p_body=state(2, id="vpc-2", zone="z-1"))
    chain.finish(net)
    again = chain.claim_one()
    assert (again["module_path"], again["type"], again["id"] > preview["id"]) == ("a/site", "PLAN", True)
    assert bound(chain, again) == {"vpc_id": "vpc-2", "zone": "z-1"}
    planned(chain, again)
    assert review(org, made)["a/site"]["decision"] == "apply"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ({"name": "id"}, "`id` is known after apply"),
        ({"name": "id", "is_sensitive": True}, "`id` changes and is sensitive"),
    ],
)
def test_consumers_of_an_unknown_output_wait_for_the_apply(
    world: World, org: Organization, chain: Runner, output: dict[str, Any], words: str
) -> None:
    made = start(org, "PLAN")
    planned(chain, chain.claim_one(), outputs=[output])
    now = progress(org, made)
    assert (chain.claim(9), now["status"], now["waiting_for_apply"], now["left_out"]) == ([], "SUCCEEDED", 2, 0)
    message = f"Waits for a/net: {words}."
    expected = {"a/site": message, "a/watch": "Waits for a/site, which waits for an apply."}
    assert {path: row["message"] for path, row in review(org, made).items() if path != "a/net"} == expected
    why = org.owner.call("explain_set", p_set=made)["waiting_for_apply"]
    assert {row["module_path"]: row["message"] for row in why} == expected
    world.sweep()
    confirm(org, made)
    net = chain.claim_one()
    chain.call("worker_state_put", **this(net), p_body=state(2, id="vpc-2", zone="z-1"))
    chain.finish(net)
    site = chain.claim_one()
    assert (site["module_path"], bound(chain, site)["vpc_id"]) == ("a/site", "vpc-2")
    planned(chain, site, outputs=[{"name": "url"}])
    assert review(org, made)["a/watch"]["message"] == "Waits for a/site: `url` is known after apply."


def test_failed_apply_keeps_its_consumers_waiting(world: World, org: Organization, chain: Runner) -> None:
    made = start(org, "PLAN")
    planned(chain, chain.claim_one(), outputs=[{"name": "id"}])
    done = confirm(org, made)
    chain.finish(chain.claim_one(), "FAILED")
    world.sweep()
    assert (chain.claim(9), progress(org, made)["waiting_for_apply"]) == ([], 2)
    org.owner.call("retry_set", p_set=done["set_id"])
    net = chain.claim_one()
    chain.call("worker_state_put", **this(net), p_body=state(2, id="vpc-2", zone="z-1"))
    chain.finish(net)
    assert names(chain.claim(9)) == ["a/site"]


def test_apply_of_a_reviewed_plan_cascades_to_nothing_that_its_set_plans(org: Organization, chain: Runner) -> None:
    depend(org, "a/site", "a/net", cascades="always")
    made = start(org, "PLAN")
    planned(chain, chain.claim_one(), outputs=[{"name": "id"}])
    confirm(org, made)
    net = chain.claim_one()
    chain.call("worker_state_put", **this(net), p_body=state(2, id="vpc-2", zone="z-1"))
    chain.finish(net)
    assert [each["cause_job_id"] for each in org.owner.call("list_sets", p_org=org.id)] == [None, None]
