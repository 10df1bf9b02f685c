"""Reasons why a job waits: the explanation never disagrees with the claim."""

import random
from typing import Any

import pytest

from tests.db.world import TOKEN_HASH, Organization, Runner, World, refused
from tests.support.extent import sampled


def explain(org: Organization, job: int) -> dict[str, object]:
    answer: dict[str, object] = org.owner.call("explain_queue", p_job=job)
    return answer


def codes(org: Organization, job: int) -> dict[str, str]:
    runners: list[dict[str, str]] = explain(org, job)["runners"]  # type: ignore[assignment]
    return {runner["name"]: runner["reason_code"] for runner in runners}


def test_each_runner_has_one_reason(world: World, org: Organization) -> None:
    org.module("a/b", labels=["gpu"])
    everywhere: dict[str, Any] = {"is_assigned_to_all_modules": True, "labels": ["gpu"]}
    org.worker("never contacted", **everywhere)
    org.worker("elsewhere", labels=["gpu"])
    org.worker("plain", is_assigned_to_all_modules=True)
    org.worker("planner", accepted_job_types=["PLAN"], **everywhere)
    runners = {name: org.runner(name, **everywhere) for name in ("offline", "disabled", "draining", "busy", "free")}
    world.silence(runners["offline"])
    org.owner.call("set_worker_disabled", p_worker=runners["disabled"].worker_id, p_disabled=True)
    org.owner.call("drain_worker", p_worker=runners["draining"].worker_id, p_reason="Maintenance")
    org.enqueue("a/c", pinned_worker_id=runners["busy"].worker_id)
    runners["busy"].claim_one()
    near = org.runner("near", assignments=["a"], labels=["gpu"])
    job = org.enqueue("a/b", "APPLY")

    expected = {
        "never contacted": "never_contacted",
        "elsewhere": "not_assigned",
        "plain": "labels_missing",
        "planner": "type_refused",
        "offline": "offline",
        "disabled": "disabled",
        "draining": "draining",
        "busy": "busy",
        "free": "nearer",
        "near": "ok",
    }
    assert codes(org, job) == expected
    answer = explain(org, job)
    assert (answer["claimable"], answer["position"]) == (True, 1)
    assert near.claim_one()["id"] == job


def test_a_runner_that_never_signed_in_shows_it_until_it_does(world: World, org: Organization) -> None:
    org.module("a/b")
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    org.owner.call("revoke_worker_token", p_token=runner.token_id)
    assert world.worker_row(runner.worker_id)["status_reason"] == "No usable token or service account"
    assert codes(org, job) == {"r1": "no_credential"}
    assert explain(org, job)["help"] == "Rotate its token, or give it a service account that is enabled."
    token: dict[str, Any] = {"p_token_hash": TOKEN_HASH, "p_token_hint": "wxyz", "p_overlap_seconds": 0}
    org.owner.call("rotate_worker_token", p_worker=runner.worker_id, **token)
    assert world.worker_row(runner.worker_id)["status_reason"].startswith("Stopped: its token was revoked")
    assert codes(org, job) == {"r1": "offline"}


def test_a_disabled_service_account_is_no_credential(world: World, org: Organization) -> None:
    org.module("a/b")
    spec = {
        "name": "sa",
        "trusts": [{"issuer": "https://issuer.example", "audience": "runyard", "bound_claims": {"sub": "ci"}}],
    }
    account = org.owner.call("create_service_account", p_org=org.id, p_spec=spec)["id"]
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    org.owner.call("revoke_worker_token", p_token=runner.token_id)
    org.owner.call("update_worker", p_worker=runner.worker_id, p_options={"service_account_id": account})
    assert codes(org, job) == {"r1": "offline"}
    for is_disabled, code in ((True, "no_credential"), (False, "offline")):
        org.owner.call("update_service_account", p_account=account, p_spec={"is_disabled": is_disabled})
        assert codes(org, job) == {"r1": code}
        said = world.worker_row(runner.worker_id)["status_reason"]
        assert (said == "No usable token or service account") == is_disabled


def test_pins_are_explained(world: World, org: Organization) -> None:
    org.module("a/b")
    runner = org.runner("r1", instance="east", is_assigned_to_all_modules=True)
    org.runner("r2", is_assigned_to_all_modules=True)
    by_runner = org.enqueue("a/b", pinned_worker_id=runner.worker_id)
    by_instance = org.enqueue("a/c", pinned_instance_name="west")
    assert codes(org, by_runner) == {"r1": "ok", "r2": "pinned_elsewhere"}
    assert codes(org, by_instance) == {"r1": "instance_missing", "r2": "instance_missing"}
    assert explain(org, by_instance)["claimable"] is False


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_members_may_read_the_explanation(org: Organization, role: str) -> None:
    job = org.enqueue("a/b")
    assert org.member(role).call("explain_queue", p_job=job)["summary"] == "There is no runner."


def test_strangers_may_not_read_the_explanation(org: Organization, other_org: Organization) -> None:
    job = org.enqueue("a/b")
    with refused("RY404", "There is no such job."):
        other_org.owner.call("explain_queue", p_job=job)


def test_a_job_behind_another_shows_it(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    first, second = org.enqueue("a/b"), org.enqueue("a/b")
    answer = explain(org, second)
    assert f"Job {world.job(first)['number']} of" in str(answer["summary"])
    assert (answer["claimable"], answer["position"]) == (False, None)
    runner.finish(runner.claim_one())
    assert explain(org, second)["claimable"] is True


def test_a_paused_job_shows_when_it_is_tried_again(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    runner.claim_one()
    world.lose(runner)
    assert "tried again in" in str(explain(org, job)["summary"])


def test_the_explanation_shows_the_position_in_the_queue(org: Organization) -> None:
    org.runner("r1", is_assigned_to_all_modules=True)
    jobs = [org.enqueue(f"m/{name}") for name in "abc"]
    urgent = org.enqueue("m/d", priority=1)
    assert [explain(org, job)["position"] for job in [urgent, *jobs]] == [1, 2, 3, 4]


def test_a_finished_job_waits_for_nothing(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    runner.finish(runner.claim_one())
    answer = explain(org, job)
    assert (answer["status"], answer["claimable"], answer["runners"]) == ("SUCCEEDED", False, [])


# ---------------------------------------------------------------------- agreement with the claim

PATHS = ["a", "a/b", "a/b/c", "x", "x/y"]
LABELS = ["gpu", "big"]


ENGINES = {"tofu": "1.10.3", "terraform": "1.9.0"}
DEGRADED = {"code": "disk", "reason": "The disk is full.", "since": "2026-01-01T00:00:00Z"}


def random_facts(dice: random.Random) -> dict[str, Any]:
    """Return facts as a runner reports them: its own engines, an engine that it prepares, or an image's with a dispatcher."""
    found = dict(dice.sample(sorted(ENGINES.items()), dice.randint(0, 2)))
    return dice.choice(
        [
            {"engines": ENGINES},
            {"engines": found, "engine_note": None if found else "no engine was found"},
            {"engines": {}, "engine_note": "tofu is being prepared, 40 %"},
            {"engines": found, "dispatcher": "docker"},
            {"engines": {}, "dispatcher": "docker", "dispatcher_engines": found, "engine_note": "no engine was found"},
        ]
    )


def random_fleet(world: World, org: Organization, dice: random.Random) -> dict[str, Runner]:
    """Runners of all kinds and in all conditions, a fifth of them shared."""
    runners = {}
    for number in range(10):
        name = f"r{number}"
        options: dict[str, Any] = {
            "labels": dice.sample(LABELS, dice.randint(0, 2)),
            "capacity": dice.choice([1, 3]),
            "accepted_job_types": dice.choice([None, None, None, ["PLAN"], ["APPLY", "DESTROY"]]),
        }
        if number % 5 == 4:
            worker = world.shared_worker(name, **options)
        else:
            paths = dice.sample(PATHS, dice.randint(0, 2))
            worker = org.worker(name, assignments=paths, is_assigned_to_all_modules=dice.random() < 0.3, **options)
        runners[name] = world.connect_runner(worker, dice.choice(["east", "west"]), **random_facts(dice))
        befall(world, runners[name], dice.choice(["", "", "", *TROUBLES]))
    return runners


TROUBLES = ("offline", "draining", "degraded", "disabled", "told")


def befall(world: World, runner: Runner, trouble: str) -> None:
    if trouble == "offline":
        world.silence(runner)
    elif trouble == "draining":
        runner.heartbeat("DRAINING")
    elif trouble == "degraded":
        runner.heartbeat(p_facts={"degraded": DEGRADED})
    elif trouble:
        column = "is_disabled" if trouble == "disabled" else "is_draining"
        world.owner.connection.execute(f"update public.workers set {column} = true where id = %s", [runner.worker_id])


def random_job(org: Organization, runners: dict[str, Runner], dice: random.Random) -> int:
    options: dict[str, object] = {
        "labels": dice.sample(LABELS, dice.choice([0, 0, 1])),
        "priority": dice.choice([10, 100]),
    }
    if dice.random() < 0.2:
        options["pinned_worker_id"] = dice.choice(list(runners.values())).worker_id
    if dice.random() < 0.2:
        options["pinned_instance_name"] = dice.choice(["east", "west"])
    path = f"{dice.choice(PATHS)}/m{dice.randint(1, 6)}"
    if path not in org.modules:
        org.module(path, engine=dice.choice(sorted(ENGINES)), engine_version=dice.choice([None, ">=1.10"]))
    return org.enqueue(path, dice.choice(["PLAN", "APPLY"]), **options)


def may_take(org: Organization, jobs: list[int], name: str) -> set[int]:
    """The jobs that this runner can claim now, by their explanations, which promise nobody where nobody can."""
    allowed = set()
    for job in jobs:
        said = explain(org, job)
        if said["position"] is None:
            continue
        found = {runner["name"]: runner["reason_code"] for runner in said["runners"]}  # type: ignore[attr-defined]
        assert said["claimable"] == ("ok" in found.values())
        assert said["claimable"] or "nearer" not in found.values(), "nobody is nearer where nobody can take it"
        if found[name] == "ok":
            allowed.add(job)
    return allowed


@pytest.mark.parametrize("use", ["NEVER", "NONE_FITS", "NONE_AVAILABLE"])
@pytest.mark.parametrize("seed", sampled(range(12), 4))
def test_the_explanation_agrees_with_the_claim(fresh_world: World, use: str, seed: int) -> None:
    world, org, dice = fresh_world, fresh_world.organization(), random.Random(f"{use} {seed}")
    for path in PATHS:
        org.group(path)
    org.use_shared(use)
    runners = random_fleet(world, org, dice)
    jobs = [random_job(org, runners, dice) for _ in range(14)]

    for name in dice.sample(sorted(runners), len(runners)):
        runner = runners[name]
        allowed = may_take(org, jobs, name)
        free = world.owner.one(
            "select capacity - used from private.instance_liveness where instance_id = %s", runner.instance_id
        )
        claimed = {job["id"] for job in runner.claim(20)}
        assert claimed <= allowed, f"{name} took {claimed - allowed}, which the explanation forbids"
        assert len(claimed) == min(len(allowed), free), f"{name} left {allowed - claimed}, which the explanation allows"
