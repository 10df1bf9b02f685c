"""One call answers a run's page, one a runner's, and one a module's."""

from tests.db.test_confirmation import apply_of, plan, runner_of
from tests.db.world import Organization, World, refused


def test_a_run_has_its_plan_its_history_and_its_state_in_one_answer(world: World, org: Organization) -> None:
    planned = plan(org, runner_of(org))
    following = apply_of(world, planned)
    viewer = org.member("viewer")
    viewer.call("comment_on_job", p_job=planned, p_body="Looks right.")
    page = viewer.call("job_page", p_org=org.id, p_number=1)
    assert (page["job"]["id"], page["plan"]["id"]) == (following["id"], planned)
    assert [(event["job_id"], event["event"]) for event in page["events"]][-1] == (following["id"], "enqueued")
    assert {event["job_id"] for event in page["events"]} == {planned, following["id"]}
    assert [comment["body"] for comment in page["comments"]] == ["Looks right."]
    assert page["numbers"] == {str(planned): 1}
    assert (page["state"]["lock"], page["kept"], page["why"], page["checked_by"]) == (None, [], None, None)
    assert page["instance"] is None


def test_a_job_that_waits_for_a_runner_has_the_reason(org: Organization) -> None:
    org.enqueue("a/b")
    page = org.owner.call("job_page", p_org=org.id, p_number=1)
    assert all(page["why"][name] for name in ("summary", "checked_at"))
    claimed = runner_of(org).claim_one()
    page = org.owner.call("job_page", p_org=org.id, p_number=1)
    assert (page["why"], page["job"]["id"]) == (None, claimed["id"])
    assert page["instance"] is not None


def test_a_job_outlives_its_module(world: World, org: Organization) -> None:
    runner = runner_of(org)
    org.enqueue("a/b")
    runner.finish(runner.claim_one())
    world.owner.connection.execute("update public.modules set deleted_at = now() where path = 'a/b'")
    page = org.owner.call("job_page", p_org=org.id, p_number=1)
    assert (page["job"]["status"], page["state"], page["kept"]) == ("SUCCEEDED", None, None)


def test_the_requester_learns_whether_somebody_else_can_approve(world: World, org: Organization) -> None:
    def rule() -> str:
        return str(org.owner.call("job_page", p_org=org.id, p_number=1)["own_approval"])

    org.enqueue("a/b", "APPLY", approvals_required=1)
    assert rule() == "alone"
    org.member("viewer")
    assert rule() == "alone"
    other = org.member("operator")
    assert rule() == "others"
    approvers = org.owner.call("job_page", p_org=org.id, p_number=1)["approvers"]
    assert approvers == ", ".join(sorted([org.owner.email, other.email]))
    world.owner.connection.execute("update public.organizations set can_approve_own_jobs = true")
    assert rule() == ""


def test_there_is_no_page_of_a_missing_number_or_a_foreign_organisation(
    org: Organization, other_org: Organization
) -> None:
    assert org.owner.call("job_page", p_org=org.id, p_number=99) is None
    with refused("RY404"):
        other_org.owner.call("job_page", p_org=org.id, p_number=1)


def test_a_runner_has_its_processes_events_and_assignments_in_one_answer(
    org: Organization, other_org: Organization
) -> None:
    org.module("platform/vpc")
    org.module("platform/dns/zones")
    runner = org.runner("r1")
    for path in ("platform", "platform/vpc"):
        org.owner.call("assign_worker", p_worker=runner.worker_id, p_path=path)
    viewer = org.member("viewer")
    page = viewer.call("runner_page", p_org=org.id, p_worker=runner.worker_id)
    assert [each["id"] for each in page["instances"]] == [runner.instance_id]
    assert page["registered"]["event"] == "registered"
    assert page["registered"]["id"] in {each["id"] for each in page["events"]}
    assert page["assignments"] == [
        {"path": "platform", "is_module": False, "modules": 2},
        {"path": "platform/vpc", "is_module": True, "modules": 0},
    ]
    assert (page["service_account"], page["decisions"]) == (None, [])
    assert page["history"]
    with refused("RY404"):
        other_org.owner.call("runner_page", p_org=other_org.id, p_worker=runner.worker_id)


def test_a_module_has_its_runners_history_state_and_links_in_one_answer(
    org: Organization, other_org: Organization
) -> None:
    module, reader = org.module("a/b"), org.module("a/reader")
    runner = org.runner("r1", assignments=["a"])
    org.runner("elsewhere", assignments=["a/reader"])
    org.owner.call("grant_outputs", p_module=module, p_reader=reader)
    org.enqueue("a/b", "DRIFT")
    runner.finish(runner.claim_one())
    org.enqueue("a/b")
    org.owner.call("lock_module", p_module=module, p_reason="Frozen")
    page = org.member("viewer").call("module_page", p_org=org.id, p_module=module)
    assert page["module"]["path"] == "a/b"
    assert [each["name"] for each in page["workers"]] == ["r1"]
    assert [each["path"] for each in page["assignments"]] == ["a"]
    assert [(each["type"], each["status"]) for each in page["history"]] == [("PLAN", "QUEUED"), ("DRIFT", "SUCCEEDED")]
    assert all("payload" not in each for each in page["history"])
    assert (page["last_change"], page["drift"], page["lock"]["reason"]) == ("SUCCEEDED", None, "Frozen")
    assert [each["path"] for each in page["readers"]] == ["a/reader"]
    assert page["state"]["versions"] == []
    with refused("RY404"):
        other_org.owner.call("module_page", p_org=other_org.id, p_module=module)
    with refused("RY404"):
        org.owner.call("module_page", p_org=other_org.id, p_module=module)
