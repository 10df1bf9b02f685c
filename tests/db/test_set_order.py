"""A set runs in the order of its modules' dependencies, whatever fails, is retried or is cancelled."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from tests.db.order_model import OrderModel, random_dag
from tests.db.world import Organization, Runner, World, refused
from tests.support.extent import sampled


def ordered(org: Organization, *edges: tuple[str, str]) -> Runner:
    """Modules with these (before, after) edges, and a runner for all of them."""
    for path in dict.fromkeys(name for edge in edges for name in edge):
        org.module(path)
    connect(org, edges)
    return org.runner("r", is_assigned_to_all_modules=True, capacity=250)


def connect(org: Organization, edges: Iterable[tuple[str, str]]) -> None:
    for before, after in edges:
        org.owner.call("set_dependency", p_consumer=org.modules[after], p_producer=org.modules[before])


def start(org: Organization, job_type: str = "APPLY", path: str = "a") -> str:
    return str(org.owner.call("start_set", p_org=org.id, p_type=job_type, p_path=path)["id"])


def progress(org: Organization, made: str) -> dict[str, Any]:
    found: dict[str, Any] = org.owner.call("set_progress", p_set=made)
    return found


def names(jobs: list[dict[str, Any]]) -> list[str]:
    return sorted(job["module_path"] for job in jobs)


DIAMOND = (("a/root", "a/left"), ("a/root", "a/right"), ("a/left", "a/leaf"), ("a/right", "a/leaf"))


@pytest.mark.parametrize("job_type", ["PLAN", "DRIFT", "APPLY"])
def test_each_job_of_a_set_is_placed_once_its_dependencies_have_ended(org: Organization, job_type: str) -> None:
    runner = ordered(org, *DIAMOND)
    made = start(org, job_type)
    [root] = runner.claim(9)
    assert (root["module_path"], progress(org, made)["waiting"]) == ("a/root", 3)
    runner.finish(root)
    left, right = runner.claim(9)
    assert names([left, right]) == ["a/left", "a/right"]
    runner.finish(left)
    assert runner.claim(9) == []
    runner.finish(right)
    [leaf] = runner.claim(9)
    runner.finish(leaf)
    assert (leaf["module_path"], progress(org, made)["status"]) == ("a/leaf", "SUCCEEDED")


def test_destroy_runs_in_reverse_order_and_requires_an_admin(org: Organization) -> None:
    runner = ordered(org, *DIAMOND)
    with refused("RY403", "your role is operator"):
        org.member("operator").call("start_set", p_org=org.id, p_type="DESTROY", p_path="a")
    start(org, "DESTROY")
    seen = []
    while jobs := runner.claim(9):
        seen.append(names(jobs))
        for job in jobs:
            runner.finish(job)
    assert seen == [["a/leaf"], ["a/left", "a/right"], ["a/root"]]


def test_a_module_outside_of_the_set_does_not_delay_it(org: Organization) -> None:
    runner = ordered(org, ("net/vpc", "a/one"), ("a/one", "a/two"))
    start(org)
    assert names(runner.claim(9)) == ["a/one"]


def test_a_failure_leaves_out_its_dependents_and_nothing_else(world: World, org: Organization) -> None:
    runner = ordered(org, *DIAMOND, ("a/right", "a/side"))
    made = start(org)
    runner.finish(runner.claim_one())
    left, right = sorted(runner.claim(9), key=lambda job: str(job["module_path"]))
    runner.finish(left, "FAILED", p_error={"code": "x", "message": "no"})
    now = progress(org, made)
    assert (now["failed"], now["left_out"], now["waiting"]) == (1, 1, 1)
    why = world.owner.one("select left_out from private.set_members where set_id = %s and because_of is not null", made)
    assert why == f"Because of #{left['number']}."
    runner.finish(right)
    side = runner.claim_one()
    assert side["module_path"] == "a/side"
    runner.finish(side)
    world.sweep()
    assert (progress(org, made)["status"], runner.claim(9)) == ("FAILED", [])


def test_successful_retry_continues_the_chain(world: World, org: Organization) -> None:
    runner = ordered(org, ("a/one", "a/two"), ("a/two", "a/three"), ("a/other", "a/three"))
    made = start(org)
    one, other = sorted(runner.claim(9), key=lambda job: str(job["module_path"]))
    runner.finish(one, "FAILED")
    runner.finish(other, "FAILED")
    world.sweep()
    assert progress(org, made)["left_out"] == 2
    org.owner.call("retry_job", p_job=one["id"])
    assert progress(org, made)["left_out"] == 1, "the third one still has a failure before it"
    runner.finish(runner.claim_one())
    runner.finish(two := runner.claim_one())
    assert (two["module_path"], runner.claim(9)) == ("a/two", [])
    org.owner.call("retry_set", p_set=made)
    runner.finish(runner.claim_one())
    runner.finish(three := runner.claim_one())
    assert (three["module_path"], progress(org, made)["status"]) == ("a/three", "SUCCEEDED")


def test_rejected_apply_leaves_out_its_dependents(org: Organization) -> None:
    org.module("a/one", approvals_required=1)
    ordered(org, ("a/two", "a/three"))
    connect(org, [("a/one", "a/two")])
    made = start(org)
    [job] = org.owner.rows(
        "select id from public.provision_jobs where status = 'AWAITING_APPROVAL' and org_id = %s", org.id
    )
    org.member("operator").call("approve_job", p_job=job, p_decision="reject")
    now = progress(org, made)
    assert (now["left_out"], now["cancelled"], now["status"]) == (2, 1, "FAILED")


def test_module_that_cannot_be_placed_leaves_out_its_dependents(org: Organization) -> None:
    runner = ordered(org, ("a/one", "a/two"), ("a/two", "a/three"))
    made = start(org)
    org.owner.call("lock_module", p_module=org.modules["a/two"], p_reason="hands off")
    runner.finish(runner.claim_one())
    now = progress(org, made)
    assert (now["failed"], now["left_out"], now["waiting"]) == (1, 1, 0)
    assert "hands off" in now["failures"][0]["message"]
    [left_out] = org.owner.call("explain_set", p_set=made)["left_out"]
    assert left_out == {"module_path": "a/three", "message": "Because of a/two."}
    org.owner.call("unlock_module", p_module=org.modules["a/two"])
    org.owner.call("retry_set", p_set=made)
    org.world.sweep()
    runner.finish(runner.claim_one())
    runner.finish(runner.claim_one())
    assert progress(org, made)["status"] == "SUCCEEDED"


def test_cancelled_set_places_nothing_more(world: World, org: Organization) -> None:
    runner = ordered(org, *DIAMOND)
    made = start(org)
    root = runner.claim_one()
    org.owner.call("cancel_set", p_set=made)
    runner.finish(root)
    world.sweep()
    assert (runner.claim(9), progress(org, made)["status"]) == ([], "CANCELLED")


def test_two_simultaneous_ends_place_a_job_that_waited_for_both(world: World, org: Organization) -> None:
    runner = ordered(org, *DIAMOND)
    start(org)
    runner.finish(runner.claim_one())
    left, right = runner.claim(9)
    other = world.caller("worker", sub=runner.worker_id, sid=runner.session_id, org=org.id)
    end = {"p_attempt": 1, "p_status": "SUCCEEDED"}
    second = world.during(
        runner,
        lambda: runner.finish(left),
        lambda: other.call("worker_finish", p_job=right["id"], **end),
    )
    second.result()
    assert names(runner.claim(9)) == ["a/leaf"]


def test_member_that_somebody_else_uses_is_placed_by_the_sweep(world: World, org: Organization) -> None:
    runner = ordered(org, ("a/one", "a/two"))
    start(org)
    one = runner.claim_one()
    with org.owner.connection.transaction():
        org.owner.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=org.modules["a/two"])
        runner.finish(one)
    assert [job["type"] for job in runner.claim(9)] == ["PLAN"]
    world.sweep()
    jobs = "select count(*) from public.provision_jobs where type = 'APPLY' and module_id = %s"
    assert world.owner.one(jobs, org.modules["a/two"]) == 1


def test_schedule_runs_its_modules_in_order(world: World, org: Organization) -> None:
    runner = ordered(org, ("a/one", "a/two"))
    spec = {"path": "a", "type": "APPLY", "cron": "0 3 * * *"}
    made = org.owner.call("create_schedule", p_org=org.id, p_spec=spec)
    org.owner.call("run_schedule", p_schedule=made["id"])
    [one] = runner.claim(9)
    runner.finish(one)
    assert names(runner.claim(9)) == ["a/two"]


def test_wide_set_starts_its_next_step_at_once(org: Organization) -> None:
    """A hundred modules wait for one; its end places all of them, without a sweep."""
    runner = ordered(org, *((("a/root", f"a/m{number}")) for number in range(100)))
    start(org)
    runner.finish(runner.claim_one())
    assert len(runner.claim(200)) == 100


class Chain:
    """One random set, the model beside it, and the jobs that the runner has."""

    def __init__(self, world: World, org: Organization, chance: Random) -> None:
        self.world, self.org, self.chance = world, org, chance
        modules, edges = random_dag(chance)
        for path in modules:
            org.module(path)
        connect(org, edges)
        self.kind = chance.choice(("APPLY", "PLAN", "DESTROY"))
        turned = {(after, before) for before, after in edges} if self.kind == "DESTROY" else edges
        self.model = OrderModel(modules, turned)
        self.runner = org.runner("r", is_assigned_to_all_modules=True, capacity=50)
        self.made = start(org, self.kind, "dag")
        self.model.place()
        self.claimed: dict[str, dict[str, Any]] = {}
        self.is_cancelled = self.is_killed = False

    def members(self) -> dict[str, tuple[int | None, str | None, str | None]]:
        query = """select o.path, m.job_id, j.status::text, m.left_out from private.set_members as m
          join public.modules as o on o.id = m.module_id left join public.provision_jobs as j on j.id = m.job_id
          where m.set_id = %s"""
        return {path: tuple(rest) for path, *rest in self.world.owner.rows(query, self.made)}  # type: ignore[misc]

    def check(self) -> None:
        members, model = self.members(), self.model
        assert {path for path, (job, _, _) in members.items() if job} == model.placed
        assert {path for path, (_, status, _) in members.items() if status == "SUCCEEDED"} == model.succeeded
        because = {path for path, (_, _, why) in members.items() if why and why.startswith("Because")}
        assert because == model.left_out()
        jobs = "select j.module_path from public.provision_jobs as j where j.org_id = %s and j.retry_of is null"
        assert sorted(self.world.owner.rows(jobs, self.org.id)) == sorted(model.placed), "none is placed twice"

    def claim(self) -> None:
        for job in self.runner.claim(self.chance.randint(1, 3)):
            path = str(job["module_path"])
            assert self.model.befores(path) <= self.model.succeeded, "nothing runs before its dependencies"
            self.claimed[path] = job

    def end(self, status: str) -> None:
        if not self.claimed:
            return
        path = self.chance.choice(sorted(self.claimed))
        self.runner.finish(self.claimed.pop(path), status)
        if status == "FAILED":
            self.model.failed.add(path)
        elif self.is_cancelled:
            self.model.succeeded.add(path)
        else:
            self.model.succeed(path)

    def retry(self) -> None:
        broken = sorted((self.model.failed | self.model.cancelled) & self.model.placed)
        if broken and not self.is_cancelled:
            path = self.chance.choice(broken)
            job, *_ = self.members()[path]
            self.org.owner.call("retry_job", p_job=job)
            self.model.retry(path)

    def kill(self) -> None:
        """Lose the runner with its jobs once: they run again, elsewhere, and nothing else changes."""
        if self.claimed and not self.is_killed and not self.is_cancelled:
            self.world.lose(self.runner)
            for job in self.claimed.values():
                self.world.end_backoff(job["id"])
            self.is_killed, self.claimed = True, {}
            self.runner = self.org.runner("r2", is_assigned_to_all_modules=True, capacity=50)

    def cancel_one(self) -> None:
        queued = sorted(self.model.running() - set(self.claimed))
        if queued:
            path = self.chance.choice(queued)
            job, *_ = self.members()[path]
            self.org.owner.call("cancel_job", p_job=job, p_kind="GRACEFUL")
            self.model.cancelled.add(path)

    def cancel_rest(self) -> None:
        if self.chance.random() < 0.15 and self.model.running():
            self.org.owner.call("cancel_set", p_set=self.made)
            self.model.cancel_rest(self.model.running() - set(self.claimed))
            self.is_cancelled = True

    def step(self) -> None:
        acts = [self.claim, self.claim, lambda: self.end("SUCCEEDED"), lambda: self.end("SUCCEEDED")]
        acts += [lambda: self.end("FAILED"), self.retry, self.kill, self.cancel_one, self.cancel_rest, self.world.sweep]
        self.chance.choice(acts)()
        self.check()

    def complete(self) -> None:
        """Retry everything and let it succeed: then each module has succeeded once, and none is forgotten."""
        for _ in range(200):
            self.retry()
            self.claim()
            self.end("SUCCEEDED")
            self.check()
        if not self.is_cancelled:
            assert self.model.succeeded == set(self.model.names)
            assert progress(self.org, self.made)["status"] == "SUCCEEDED"


@pytest.mark.parametrize("seed", sampled(range(60), 12))
def test_order_agrees_with_its_model(world: World, org: Organization, seed: int) -> None:
    chain = Chain(world, org, Random(seed))
    for _ in range(40):
        chain.step()
    chain.complete()


def test_waiting_modules_name_the_modules_that_they_wait_for(org: Organization) -> None:
    runner = ordered(org, *DIAMOND)
    made = start(org)
    root = runner.claim_one()
    found = org.owner.call("explain_set", p_set=made)["waiting"]
    assert [row["module_path"] for row in found] == ["a/leaf", "a/left", "a/right"]
    assert found[1]["waits_for"] == [{"module_path": "a/root", "job_number": root["number"], "status": "CLAIMED"}]
    assert [row["module_path"] for row in found[0]["waits_for"]] == ["a/left", "a/right"]
    runner.finish(root, "FAILED")
    after = org.owner.call("explain_set", p_set=made)
    message = f"Because of #{root['number']}."
    assert (after["waiting"], after["left_out"][0]) == ([], {"module_path": "a/leaf", "message": message})


def test_a_set_keeps_its_order_through_a_lost_runner_and_a_held_job(world: World, org: Organization) -> None:
    runner = ordered(org, ("a/one", "a/two"), ("a/two", "a/three"))
    made = start(org)
    one = runner.claim_one()
    world.lose(runner)
    assert (world.status(one["id"]), progress(org, made)["waiting"]) == ("QUEUED", 3)
    world.end_backoff(one["id"])
    second = org.runner("r2", is_assigned_to_all_modules=True)
    second.finish(second.claim_one())
    two = second.claim_one()
    second.report(two, "APPLY")
    world.lose(second)
    assert (world.status(two["id"]), progress(org, made)["waiting"]) == ("NEEDS_ATTENTION", 1)
    org.owner.call("resolve_attention", p_job=two["id"], p_action="mark_failed")
    assert progress(org, made)["left_out"] == 1
    org.owner.call("retry_set", p_set=made)
    third = org.runner("r3", is_assigned_to_all_modules=True)
    third.finish(third.claim_one())
    third.finish(third.claim_one())
    assert progress(org, made)["status"] == "SUCCEEDED"
