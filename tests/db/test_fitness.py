"""Fitness of runners for a job: engines, rights in a cloud, health, the organisation's settings; in the claim and its explanation."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused

TOFU = {"tofu": "1.10.3"}
TERRAFORM = {"terraform": "1.9.0"}
DEGRADED = {"code": "disk", "reason": "The disk is full.", "since": "2026-01-01T00:00:00Z"}


def runner(org: Organization, name: str = "r1", facts: dict[str, Any] | None = None, **options: Any) -> Runner:
    options = options or {"is_assigned_to_all_modules": True}
    return org.world.connect_runner(org.worker(name, **options), **(facts or {}))


def explained(org: Organization, job: int) -> dict[str, Any]:
    answer: dict[str, Any] = org.owner.call("explain_queue", p_job=job)
    return answer


def verdict(org: Organization, job: int, name: str = "r1") -> tuple[str, str]:
    found = next(each for each in explained(org, job)["runners"] if each["name"] == name)
    return found["reason_code"], found["reason"]


# ---------------------------------------------------------------------- engines


def test_a_runner_without_the_engine_never_claims_the_job(org: Organization) -> None:
    other = runner(org, facts={"engines": TERRAFORM})
    org.module("a/b", engine="tofu")
    job = org.enqueue("a/b")
    assert other.claim() == []
    assert verdict(org, job) == ("engine_missing", "Has no tofu")
    assert "No runner that may run it has tofu." in explained(org, job)["summary"]
    other.heartbeat(p_facts={"engines": TERRAFORM | TOFU})
    assert other.claim_one()["id"] == job


def test_a_nearer_runner_without_the_engine_does_not_keep_a_job_from_others(org: Organization) -> None:
    org.module("a/b", engine="tofu")
    near = runner(org, "near", {"engines": TERRAFORM}, assignments=["a/b"])
    far = runner(org, "far", {"engines": TOFU})
    job = org.enqueue("a/b")
    assert near.claim() == []
    assert far.claim_one()["id"] == job


def test_an_engine_that_is_being_prepared_is_shown(org: Organization) -> None:
    slow = runner(org, facts={"engines": {}, "engine_note": "tofu is being prepared, 40 %"})
    slow.heartbeat(p_facts={"engines": {}, "engine_note": "tofu is being prepared, 40 %"})
    org.module("a/b", engine="tofu")
    job = org.enqueue("a/b")
    assert slow.claim() == []
    assert verdict(org, job) == ("engine_preparing", "tofu is being prepared, 40 %")


def test_a_runner_without_a_report_counts_as_having_it(org: Organization) -> None:
    job = org.enqueue("a/b")
    assert runner(org, facts={"engines": None}).claim_one()["id"] == job


@pytest.mark.parametrize(
    ("facts", "takes"),
    [
        ({"dispatcher": "docker", "engines": {}}, True),
        ({"dispatcher": "docker", "engines": TERRAFORM, "dispatcher_engines": TOFU}, True),
        ({"dispatcher": "docker", "engines": TOFU, "dispatcher_engines": TERRAFORM}, False),
        ({"dispatcher": "local", "engines": TOFU, "dispatcher_engines": TERRAFORM}, True),
    ],
)
def test_with_a_dispatcher_the_image_counts(org: Organization, facts: dict[str, Any], *, takes: bool) -> None:
    org.module("a/b", engine="tofu")
    org.enqueue("a/b")
    assert bool(runner(org, facts=facts).claim()) is takes


def test_an_engine_that_the_host_prepares_is_not_in_the_image(org: Organization) -> None:
    """A runner that dispatches may prepare an engine for itself; its jobs find the engines of the image."""
    note = {"engines": {}, "engine_note": "tofu is being prepared, 40 %"}
    there = runner(org, facts={"dispatcher": "docker", "dispatcher_engines": TERRAFORM})
    there.heartbeat(p_facts=note)
    org.module("a/b", engine="tofu")
    job = org.enqueue("a/b")
    assert verdict(org, job) == ("engine_missing", "Has no tofu")
    assert "has tofu" in explained(org, job)["summary"]


def test_the_engines_that_are_shown_are_those_that_jobs_find(org: Organization) -> None:
    facts = {"dispatcher": "docker", "engines": TERRAFORM, "dispatcher_engines": TOFU, "engine_note": "no engine"}
    runner(org, facts=facts)
    process = org.owner.call("list_runners", p_org=org.id)["rows"][0]["processes"][0]
    assert (process["engines"], process["engine_note"]) == (TOFU, None)


@pytest.mark.parametrize(
    ("required", "takes"),
    [
        ("1.10.3", True),
        ("= 1.10.3", True),
        ("1.10.4", False),
        (">=1.10,<2", True),
        (">= 1.11", False),
        ("~> 1.10", True),
        ("~> 1.10.1", True),
        ("~> 1.9.0", False),
        ("~> 1", True),
        ("!=1.10.3", False),
        (">1.10.2, !=1.10.4", True),
        ("<=1.10.2", False),
        ("anything", True),
    ],
)
def test_the_version_that_a_module_requires_counts(org: Organization, required: str, *, takes: bool) -> None:
    """As the runner's own check reads it; a requirement that it cannot read is left to the runner, which reports it."""
    there = runner(org, facts={"engines": TOFU})
    org.module("a/b", engine="tofu", engine_version=required)
    job = org.enqueue("a/b")
    assert verdict(org, job)[0] == ("ok" if takes else "engine_version")
    assert bool(there.claim()) is takes


# ---------------------------------------------------------------------- health


def test_a_degraded_runner_is_not_available(org: Organization) -> None:
    org.module("a/b")
    near = runner(org, "near", assignments=["a"])
    far = runner(org, "far")
    near.heartbeat(p_facts={"degraded": DEGRADED})
    job = org.enqueue("a/b")
    assert near.claim() == []
    assert verdict(org, job, "near") == ("degraded", "Degraded: The disk is full.")
    assert far.claim_one()["id"] == job


def test_a_runner_that_is_well_again_works_again(org: Organization) -> None:
    there = runner(org, facts={"degraded": DEGRADED})
    job = org.enqueue("a/b")
    assert there.claim() == []
    there.heartbeat(p_facts={"degraded": None})
    assert there.claim_one()["id"] == job


# ---------------------------------------------------------------------- clouds


@pytest.mark.parametrize(("clouds", "takes"), [(["aws"], True), (["gcp"], False), ([], False), (None, False)])
def test_a_job_in_a_cloud_is_claimed_only_by_runners_with_rights_in_it(
    org: Organization, clouds: list[str] | None, *, takes: bool
) -> None:
    there = runner(org, facts={"clouds": clouds})
    identity = org.cloud_identity(is_tested=False)
    org.owner.call("verify_cloud_identity", p_identity=identity)
    job = org.owner.one("select id from public.provision_jobs where target_identity_id = %s", identity)
    assert verdict(org, job)[0] == ("ok" if takes else "cloud_missing")
    assert bool(there.claim()) is takes


def test_a_failure_for_lack_of_rights_is_not_final(world: World, org: Organization) -> None:
    there = runner(org)
    identity = org.cloud_identity(is_tested=False)
    job = org.owner.call("verify_cloud_identity", p_identity=identity)["job"]["id"]
    for attempt in (1, 2, 3):
        there.call(
            "worker_return_job", p_job=there.claim_one()["id"], p_attempt=attempt, p_reason="Denied.", p_code="rights"
        )
        assert there.claim() == [], "it would fail again at once"
        if attempt < 3:
            assert "Denied." in explained(org, job)["summary"]
            world.owner.connection.execute(
                "update private.live_jobs set not_before_at = now() where job_id = %s", [job]
            )
            world.sweep()
    status, error = world.owner.one("select status::text, error from public.provision_jobs where id = %s", job)
    assert (status, error["code"]) == ("FAILED", "RUNNERS_UNFIT")
    assert "Denied." in error["message"]


# ---------------------------------------------------------------------- maintenance


def begin(world: World, org: Organization) -> None:
    until = world.owner.one("select now() + interval '1 hour'")
    org.owner.call("set_maintenance", p_org=org.id, p_until=until, p_reason="The network moves.")


def test_during_maintenance_no_job_is_claimed_and_running_jobs_finish(world: World, org: Organization) -> None:
    there = runner(org, is_assigned_to_all_modules=True, capacity=2)
    org.enqueue("a/running")
    running = there.claim_one()
    begin(world, org)
    job = org.enqueue("a/waiting")
    assert there.claim() == []
    said = explained(org, job)
    assert not said["claimable"]
    assert "until" in said["summary"]
    assert "The network moves." in said["summary"]
    assert org.owner.call("maintenance", p_org=org.id)["scope"] == "organization"
    assert there.finish(running)["status"] == "SUCCEEDED"
    org.owner.call("set_maintenance", p_org=org.id)
    assert org.owner.call("maintenance", p_org=org.id) is None
    assert there.claim_one()["id"] == job


def test_maintenance_of_one_organisation_concerns_no_other(fresh_world: World) -> None:
    world = fresh_world
    here, elsewhere = world.organization(), world.organization()
    shared = world.connect_runner(world.shared_worker(capacity=5))
    begin(world, here)
    here.enqueue("a/b")
    job = elsewhere.enqueue("a/b")
    assert [each["id"] for each in shared.claim(5)] == [job]


def test_maintenance_of_the_installation_concerns_everybody(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    there = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    until = world.owner.one("select now() + interval '1 hour'")
    told = world.service.call("set_installation_maintenance", p_until=until, p_reason=" A new disk. ")["maintenance"]
    assert (told["scope"], told["reason"]) == ("installation", "A new disk.")
    assert there.claim() == []
    assert "installation" in explained(org, job)["summary"]
    world.owner.connection.execute("update private.installation set maintenance_until = now()")
    assert there.claim_one()["id"] == job, "it ends on its own"
    ended = world.service.call("set_installation_maintenance", p_until=None, p_reason=None)
    assert ended == {"maintenance": None}


@pytest.mark.parametrize(
    ("until", "reason", "words"),
    [
        ("-1 hour", "why", "Maintenance ends at a time within the next 30 days."),
        ("31 days", "why", "Maintenance ends at a time within the next 30 days."),
        ("1 hour", " ", "Maintenance needs a reason of at most 500 characters."),
        ("1 hour", None, "Maintenance needs a reason of at most 500 characters."),
        ("1 hour", "x" * 501, "Maintenance needs a reason of at most 500 characters."),
    ],
)
def test_maintenance_needs_an_end_and_a_reason(
    world: World, org: Organization, until: str, reason: str | None, words: str
) -> None:
    when = world.owner.one("select now() + %s::interval", until)
    with refused("RY422", words):
        org.owner.call("set_maintenance", p_org=org.id, p_until=when, p_reason=reason)


# ---------------------------------------------------------------------- shared runners


def test_a_shared_runner_serves_the_organisations_that_the_installation_names(fresh_world: World) -> None:
    org, other = fresh_world.organization(), fresh_world.organization()
    slug = fresh_world.owner.one("select slug from public.organizations where id = %s", org.id)
    shared = fresh_world.shared_worker("shared", capacity=5)

    def say(*slugs: str) -> dict[str, Any]:
        options = {"organizations": list(slugs)}
        told: dict[str, Any] = fresh_world.service.call(
            "ensure_shared_worker", p_name="shared", p_token_hash=None, p_token_hint=None, p_options=options
        )
        return told

    made = say(slug)
    assert (made["organizations_before"], made["organizations"]) == ([], [slug])
    runs = fresh_world.connect_runner(shared)
    mine, theirs = org.enqueue("a/b"), other.enqueue("a/b")
    assert [verdict(org, mine, "shared")[0], verdict(other, theirs, "shared")[0]] == ["ok", "shared_elsewhere"]
    assert [job["id"] for job in runs.claim(5)] == [mine]
    say()
    assert [job["id"] for job in runs.claim(5)] == [theirs]
    with refused("RY404", 'There is no organisation "nobody".'):
        say("nobody")


def test_a_shared_runner_helps_when_no_own_one_is_available(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    shared = world.connect_runner(world.shared_worker())
    own = org.runner("own", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    assert (verdict(org, job, "own")[0], verdict(org, job, "shared")[0]) == ("ok", "nearer")
    assert shared.claim() == []
    world.silence(own)
    assert (verdict(org, job, "own")[0], verdict(org, job, "shared")[0]) == ("offline", "ok")
    assert explained(org, job)["summary"] == "A runner can take it now."
    assert shared.claim_one()["id"] == job


def keep_busy(org: Organization, own: Runner) -> None:
    org.enqueue("a/busy", pinned_worker_id=own.worker_id)
    own.claim_one()


# Events of the own runner, and the summary on the job's page then: never that somebody claims it.
AWAY: dict[str, tuple[Callable[[Organization, Runner], Any], str]] = {
    "offline": (lambda org, own: org.world.silence(own), "The runners that may run it are offline."),
    "draining": (lambda _, own: own.heartbeat("DRAINING"), "The runners that may run it are draining."),
    "busy": (keep_busy, "Every runner that may run it is busy."),
    "degraded": (
        lambda _, own: own.heartbeat(p_facts={"degraded": DEGRADED}),
        "The runners that may run it are degraded.",
    ),
}


@pytest.mark.parametrize("why", AWAY)
def test_an_organisation_can_keep_its_jobs_for_its_own_runners(fresh_world: World, why: str) -> None:
    """NONE_FITS: an own runner that is set up for the job keeps it, also while it is busy or away, and the page shows that."""
    world, org = fresh_world, fresh_world.organization()
    org.use_shared("NONE_FITS")
    shared = world.connect_runner(world.shared_worker())
    own = org.runner("own", is_assigned_to_all_modules=True)
    happens, summary = AWAY[why]
    happens(org, own)
    job = org.enqueue("a/b")
    assert shared.claim() == []
    said = explained(org, job)
    assert (said["claimable"], said["summary"]) == (False, summary)
    assert "let them help when no own runner is available" in said["help"]
    assert (verdict(org, job, "own")[0], verdict(org, job, "shared")[0]) == (why, "own_first")
    org.use_shared("NONE_AVAILABLE")
    assert explained(org, job)["claimable"]
    assert shared.claim_one()["id"] == job


@pytest.mark.parametrize("why", ["never seen", "disabled", "without the engine"])
def test_a_shared_runner_helps_where_no_own_one_is_set_up(fresh_world: World, why: str) -> None:
    world, org = fresh_world, fresh_world.organization()
    org.use_shared("NONE_FITS")
    shared = world.connect_runner(world.shared_worker())
    worker = org.worker("own", is_assigned_to_all_modules=True)
    if why != "never seen":
        world.connect_runner(worker, engines=TERRAFORM if why == "without the engine" else TOFU)
    if why == "disabled":
        org.owner.call("set_worker_disabled", p_worker=worker, p_disabled=True)
    org.module("a/b", engine="tofu")
    job = org.enqueue("a/b")
    assert shared.claim_one()["id"] == job


def test_an_organisation_can_do_without_shared_runners(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    shared = world.connect_runner(world.shared_worker())
    job = org.enqueue("a/b")
    org.use_shared("NEVER")
    assert shared.claim() == []
    assert verdict(org, job, "shared")[0] == "shared_refused"
    later = org.enqueue("a/c")
    assert shared.claim() == []
    with refused("RY422", "Shared runners are used NEVER, when NONE_FITS, or when NONE_AVAILABLE."):
        org.owner.call("set_shared_runners", p_org=org.id, p_use=None)
    org.use_shared("NONE_FITS")
    assert {shared.claim_one()["id"]} <= {job, later}


def test_the_administrator_governs_a_shared_runner(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    shared = world.connect_runner(world.shared_worker(capacity=5))
    org.enqueue("a/b")
    for stop, go in (("drain", "resume"), ("disable", "enable")):
        world.service.call("set_shared_worker", p_name="shared", p_action=stop, p_reason="new disk")
        assert shared.claim() == []
        world.service.call("set_shared_worker", p_name="shared", p_action=go)
    assert shared.claim_one()
    world.service.call("set_shared_worker", p_name="shared", p_action="end_sessions")
    with refused("RY401"):
        shared.heartbeat()
    acts = ["drained", "resumed", "disabled", "enabled", "sessions_ended"]
    told = "select event, reason from public.worker_events where event = any (%s) order by id"
    given = ["new disk", "By the administrator", "new disk", "By the administrator", "By the administrator"]
    assert world.owner.rows(told, acts) == list(zip(acts, given, strict=True))
    audited = "select action from public.audit_events where org_id is null and action = any (%s) order by id"
    assert world.owner.rows(audited, [f"worker.{act}" for act in acts]) == [f"worker.{act}" for act in acts]
    with refused("RY404"):
        world.service.call("set_shared_worker", p_name="nobody", p_action="drain")
    with refused("RY422", "A shared runner can drain, resume, disable, enable or end_sessions."):
        world.service.call("set_shared_worker", p_name="shared", p_action="dance")


def test_a_draining_shared_runner_wakes_the_runners_that_may_claim_its_jobs(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    world.connect_runner(world.shared_worker())
    other = world.connect_runner(world.shared_worker("other"))
    org.enqueue("a/b")
    world.owner.connection.execute("delete from realtime.messages")
    world.service.call("set_shared_worker", p_name="shared", p_action="drain")
    assert world.wake_ups(f"worker:{other.worker_id}", "wake")


def test_a_runner_whose_instances_are_all_degraded_is_not_called_ready(world: World, org: Organization) -> None:
    worker = org.worker("r1", allow_multiple_instances=True)
    one, two = world.connect_runner(worker, "one"), world.connect_runner(worker, "two")
    for instance in (one, two):
        assert world.worker_row(worker)["status_reason"] == "Ready"
        instance.heartbeat(p_facts={"degraded": DEGRADED})
    row = world.worker_row(worker)
    assert (row["status"], row["status_reason"]) == ("ONLINE", "Degraded: The disk is full.")
    for instance in (one, two):
        instance.heartbeat(p_facts={"degraded": {"reason": "x" * 1000}})
    assert world.worker_row(worker)["status_reason"] == "Degraded: " + "x" * 300
    one.heartbeat(p_facts={"degraded": None})
    assert world.worker_row(worker)["status_reason"] == "Ready"
