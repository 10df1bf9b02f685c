"""Lists by the page: rows beyond the first thousand are listed, counted, found and in order."""

from typing import Any

import pytest

from tests.db.bulk import add_finished_jobs, add_modules, add_queued_jobs, add_workers
from tests.db.world import Organization, World, refused


def runners(org: Organization, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = org.owner.call("list_runners", p_org=org.id, **more)
    return answer


def jobs(org: Organization, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = org.owner.call("list_jobs", p_org=org.id, **more)
    return answer


def modules(org: Organization, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = org.owner.call("list_modules", p_org=org.id, **more)
    return answer


def names(page: dict[str, Any]) -> list[str]:
    return [row["name"] for row in page["rows"]]


@pytest.fixture
def fleet(world: World, org: Organization) -> Organization:
    """1,200 runners that never came, and one that works."""
    add_workers(world, org, 1200)
    runner = org.runner("here", is_assigned_to_all_modules=True, capacity=4, labels=["gpu=true"])
    org.enqueue("a/b")
    runner.claim_one()
    return org


def test_every_runner_is_counted_and_found(fleet: Organization) -> None:
    page = runners(fleet)
    assert (page["total"], page["counts"], len(page["rows"])) == (1201, {"ONLINE": 1, "OFFLINE": 1200}, 50)
    assert names(runners(fleet, p_search="bulk-1199")) == ["bulk-1199"]
    assert names(runners(fleet, p_search="100%")) == [], "what is typed is text, not a pattern"
    assert names(runners(fleet, p_search="GPU")) == ["here"], "labels are searched, too"


def test_runners_by_page_and_order(fleet: Organization) -> None:
    seen = [name for at in range(0, 1400, 200) for name in names(runners(fleet, p_limit=200, p_offset=at))]
    assert len(seen) == len(set(seen)) == 1201
    assert seen == sorted(seen)
    assert names(runners(fleet, p_sort="-name", p_limit=3)) == seen[::-1][:3]
    assert names(runners(fleet, p_sort="status", p_limit=1)) == ["here"]


def test_filters_leave_the_counts_of_the_other_statuses(fleet: Organization) -> None:
    page = runners(fleet, p_filters={"status": ["ONLINE"]})
    assert (names(page), page["total"], page["counts"]) == (["here"], 1, {"ONLINE": 1, "OFFLINE": 1200})
    assert names(runners(fleet, p_filters={"label": ["gpu=true"], "type": ["self-hosted"]})) == ["here"]
    assert runners(fleet, p_filters={"type": ["cloud-hosted"]})["total"] == 0


def test_a_listed_runner_carries_its_load(fleet: Organization) -> None:
    (row,) = runners(fleet, p_search="here")["rows"]
    assert (row["used"], row["slots"], row["instances"], row["status"]) == (1, 4, 1, "ONLINE")
    assert row["last_seen_at"]


def test_a_listed_runner_carries_its_processes_and_apart_from_them_their_pulse(fleet: Organization) -> None:
    (row,) = runners(fleet, p_search="here")["rows"]
    assert [(item["name"], item["status"]) for item in row["processes"]] == [("one", "ONLINE")]
    (pulse,) = row["pulses"].values()
    assert (pulse["used"], pulse["capacity"]) == (1, 4)
    assert (runners(fleet, p_limit=1)["rows"][0]["processes"], row["live_status"]) == ([], "ONLINE")


def test_runners_are_filtered_by_their_health(world: World, org: Organization) -> None:
    """Each condition alone, and a runner that has two of them."""
    world.owner.connection.execute("insert into public.worker_releases (version, notes) values ('1.0.0', 'x')")
    org.worker("never")
    org.runner("well").heartbeat()
    org.runner("old").heartbeat(version="0.9.0")
    org.runner("open").heartbeat(p_facts={"isolation": "none"})
    ill = {"degraded": {"code": "disk", "reason": "The runner's disk is full.", "since": "now"}}
    org.runner("ill").heartbeat(p_facts=ill, version="0.9.0")
    org.runner("bare").heartbeat(p_facts={"engines": {}, "engine_note": "no engine was found"})
    silent = org.runner("silent")
    world.owner.connection.execute(
        "update public.workers set status = 'OFFLINE', status_reason = 'No heartbeat for 60 s' where id = %s",
        [silent.worker_id],
    )
    expected = {
        "never_contacted": ["never"],
        "healthy": ["well"],
        "outdated": ["ill", "old"],
        "not_isolated": ["open"],
        "degraded": ["bare", "ill"],
        "out_of_contact": ["silent"],
    }
    found = {health: names(runners(org, p_filters={"health": [health]})) for health in expected}
    assert found == expected
    (row,) = runners(org, p_search="ill")["rows"]
    assert (row["health"], row["health_reason"]) == (["degraded", "outdated"], "The runner's disk is full.")
    facets = org.owner.call("runner_facets", p_org=org.id)
    assert facets["counts"]["health"] == {health: len(members) for health, members in expected.items()}
    assert facets["counts"]["version"]["0.9.0"] == 2
    assert (facets["latest"], facets["outdated"], facets["updated_by_job"]) == ("1.0.0", 2, 0)


def test_runners_by_version_region_and_number(world: World, org: Organization) -> None:
    runner = org.runner("eu", labels=["tier=edge", "gpu=true"])
    runner.heartbeat(version="1.2.3")
    world.owner.connection.execute("update public.workers set region = 'eu-west-1' where id = %s", [runner.worker_id])
    org.worker("us", labels=["tier=edge"])
    for filters in (
        {"version": ["1.2.3"]},
        {"region": ["eu-west-1"]},
        {"id": [runner.worker_id]},
        {"label": ["gpu=true", "tier=edge"]},
    ):
        assert names(runners(org, p_filters=filters)) == ["eu"], filters
    assert org.owner.call("runner_facets", p_org=org.id)["counts"]["label"] == {"tier=edge": 2, "gpu=true": 1}
    with refused("RY422", "A filter of the list is not valid."):
        runners(org, p_filters={"id": ["x"]})


def test_many_runners_are_changed_at_once_and_each_refusal_has_a_reason(
    org: Organization, other_org: Organization
) -> None:
    here, there, foreign = org.worker("here", labels=["a=1"]), org.worker("there"), other_org.worker("foreign")

    def change(change: str, *ids: str, **options: Any) -> Any:
        named = "{" + ",".join(ids) + "}"
        return org.owner.call("change_runners", p_org=org.id, p_workers=named, p_change=change, p_options=options)

    assert change("drain", here, there, foreign, reason="Maintenance") == {"done": 2, "refused": []}
    rows = runners(org)["rows"]
    assert [(row["name"], row["is_draining"], row["drain_reason"]) for row in rows] == [
        ("here", True, "Maintenance"),
        ("there", True, "Maintenance"),
    ]
    change("resume", here)
    change("disable", there)
    assert [(row["is_draining"], row["is_disabled"]) for row in runners(org)["rows"]] == [(False, False), (True, True)]
    change("enable", there)
    assert change("label", here, there, labels=["b=2"])["done"] == 2
    assert [row["labels"] for row in runners(org)["rows"]] == [["a=1", "b=2"], ["b=2"]]
    answer = change("update", here)
    assert (answer["done"], answer["refused"][0]["name"]) == (0, "here")
    assert answer["refused"][0]["why"]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"p_change": "explode"}, "There is no such change of runners."),
        ({"p_workers": "{}"}, "One to 200 runners are changed at a time."),
        ({"p_workers": "{" + ",".join(["00000000-0000-4000-8000-000000000000"] * 201) + "}"}, "One to 200 runners"),
        ({"p_options": {"colour": "red"}}, "Unknown option: colour."),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(org: Organization, bad: dict[str, Any], words: str) -> None:
    usual = {"p_org": org.id, "p_workers": f"{{{org.worker('here')}}}", "p_change": "drain", "p_options": {}}
    with refused("RY422", words):
        org.owner.call("change_runners", **{**usual, **bad})
    with refused("RY403"):
        org.member("viewer").call("change_runners", **usual)


def test_without_a_rollout_there_is_no_progress(org: Organization, other_org: Organization) -> None:
    assert org.owner.call("rollout_progress", p_org=org.id) is None
    with refused("RY404"):
        other_org.owner.call("rollout_progress", p_org=org.id)


def test_a_rollout_counts_its_waves(world: World, org: Organization) -> None:
    first, second = org.worker("first"), org.worker("second")
    rollout = world.owner.one(
        "insert into public.rollouts (org_id, version, waves) values (%s, '1.9.0', %s) returning id",
        org.id,
        f'[["{first}"], ["{second}"]]',
    )
    for status in ("FAILED", "SUCCEEDED"):
        world.owner.connection.execute(
            "insert into public.provision_jobs (org_id, type, status, target_worker_id, rollout_id)"
            " values (%s, 'UPDATE_WORKER', %s, %s, %s)",
            [org.id, status, first, rollout],
        )
    assert org.member("guest").call("rollout_progress", p_org=org.id) is None, "a guest's page of runners asks, too"
    progress = org.owner.call("rollout_progress", p_org=org.id)
    assert (progress["version"], progress["wave"]) == ("1.9.0", 1)
    assert progress["waves"] == [
        {"runners": 1, "done": 1, "failed": 0},
        {"runners": 1, "done": 0, "failed": 0},
    ], "the newest job of each runner counts"


def test_facets_are_the_members_own(org: Organization, other_org: Organization) -> None:
    assert org.member("viewer").call("runner_facets", p_org=org.id)["outdated"] == 0
    with refused("RY404"):
        other_org.owner.call("runner_facets", p_org=org.id)


@pytest.fixture
def queue(world: World, org: Organization) -> Organization:
    """1,500 that wait, 1,500 that are over, one that runs and was first, one that needs approval."""
    runner = org.runner("here", is_assigned_to_all_modules=True)
    org.module("special/one")
    org.enqueue("special/one")
    runner.claim_one()
    add_modules(world, org, 20)
    add_finished_jobs(world, org, 1500)
    add_queued_jobs(world, org, 1500)
    org.enqueue("special/two", "APPLY", approvals_required=1)
    return org


def test_running_jobs_are_listed_first_however_long_the_queue(queue: Organization) -> None:
    page = jobs(queue)
    assert [row["status"] for row in page["rows"][:3]] == ["CLAIMED", "AWAITING_APPROVAL", "QUEUED"]
    assert page["counts"] == {"CLAIMED": 1, "AWAITING_APPROVAL": 1, "QUEUED": 1501, "SUCCEEDED": 1500}
    assert page["total"] == 3003
    assert "payload" not in page["rows"][0]
    running = jobs(queue, p_filters={"status": ["CLAIMED", "PROCESSING"]})
    assert (running["total"], [row["module_path"] for row in running["rows"]]) == (1, ["special/one"])


def test_pages_of_jobs_miss_none_and_show_none_twice(queue: Organization) -> None:
    by_offset = [row["id"] for at in range(0, 3200, 200) for row in jobs(queue, p_limit=200, p_offset=at)["rows"]]
    assert len(by_offset) == len(set(by_offset)) == 3003
    by_key: list[int] = []
    while rows := jobs(queue, p_sort="newest", p_limit=200, p_before=by_key[-1] if by_key else None)["rows"]:
        by_key += [row["id"] for row in rows]
    assert by_key == sorted(by_offset, reverse=True)


def test_jobs_are_found_by_path_runner_and_number(queue: Organization) -> None:
    one, two = (row["number"] for row in jobs(queue, p_search="special/")["rows"])
    assert {row["number"] for row in jobs(queue, p_search="here")["rows"]} == {one}
    assert [row["number"] for row in jobs(queue, p_search=f"#{two}")["rows"]] == [two]
    found = jobs(queue, p_search="bulk/m7", p_filters={"status": ["SUCCEEDED"]})
    assert (found["total"], found["counts"]["SUCCEEDED"]) == (75, 75)
    assert jobs(queue, p_search="nothing like that")["rows"] == []


def test_jobs_of_a_module_a_runner_and_a_type(queue: Organization) -> None:
    module = queue.modules["special/one"]
    assert [row["module_path"] for row in jobs(queue, p_filters={"module_id": module})["rows"]] == ["special/one"]
    applies = jobs(queue, p_filters={"type": ["APPLY"]})
    assert (applies["total"], applies["counts"]) == (1, {"AWAITING_APPROVAL": 1})
    worker = jobs(queue, p_search="special/one")["rows"][0]["worker_id"]
    assert jobs(queue, p_filters={"worker_id": worker, "type": ["PLAN"]})["total"] == 1


def test_modules_by_page_group_and_search(queue: Organization) -> None:
    page = modules(queue, p_limit=5)
    assert (page["total"], len(page["rows"]), page["counts"]["special"]) == (23, 5, 2)
    assert "source" not in page["rows"][0]
    (planned,) = modules(queue, p_search="special/one")["rows"]
    assert planned["last_job"] is None
    (apply,) = jobs(queue, p_filters={"type": ["APPLY"]})["rows"]
    (applied,) = modules(queue, p_search=apply["module_path"])["rows"]
    assert applied["last_job"]["status"] == "AWAITING_APPROVAL"
    assert modules(queue, p_filters={"group_path": "bulk"})["total"] == 21
    assert modules(queue, p_filters={"group_path": "bul"})["total"] == 0
    queue.module("special/below/three")
    assert modules(queue, p_filters={"group_path": "special"})["total"] == 3
    assert modules(queue, p_filters={"in_group": "special"})["total"] == 2, "and not what is in groups below"
    assert [row["path"] for row in modules(queue, p_sort="-path", p_limit=1)["rows"]] == ["special/two"]


LISTS = ["list_runners", "list_jobs", "list_modules"]


@pytest.mark.parametrize("function", LISTS)
def test_lists_are_the_members_own(org: Organization, other_org: Organization, function: str) -> None:
    assert org.member("viewer").call(function, p_org=org.id)["total"] == 0
    with refused("RY404"):
        other_org.owner.call(function, p_org=org.id)


@pytest.mark.parametrize("function", LISTS)
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"p_limit": 0}, "A page has 1 to 200 rows and begins at 0 to 1,000,000."),
        ({"p_limit": 201}, "A page has 1 to 200 rows and begins at 0 to 1,000,000."),
        ({"p_offset": 1_000_001}, "A page has 1 to 200 rows and begins at 0 to 1,000,000."),
        ({"p_offset": -1}, "A page has 1 to 200 rows and begins at 0 to 1,000,000."),
        ({"p_sort": "colour"}, "There is no such order."),
        ({"p_filters": {"colour": "red"}}, "Unknown option: colour."),
        ({"p_filters": [1]}, "The options must be a JSON object."),
    ],
)
def test_a_page_that_makes_no_sense_is_refused(org: Organization, function: str, bad: Any, words: str) -> None:
    with refused("RY422", words):
        org.owner.call(function, p_org=org.id, **bad)


@pytest.mark.parametrize("filters", [{"status": ["ASLEEP"]}, {"module_id": "x"}, {"worker_id": "x"}])
def test_a_filter_that_names_nothing_is_refused(org: Organization, filters: dict[str, Any]) -> None:
    with refused("RY422", "A filter of the list is not valid."):
        org.owner.call("list_jobs", p_org=org.id, p_filters=filters)


def test_live_numbers_are_for_the_runners_that_are_named(fleet: Organization, other_org: Organization) -> None:
    foreign = other_org.worker("foreign")
    here = runners(fleet, p_search="here")["rows"][0]["id"]
    answer = fleet.owner.call("fleet_overview", p_org=fleet.id, p_workers=f"{{{here},{foreign}}}")
    assert [row["id"] for row in answer["workers"]] == [here]
    assert (answer["counts"]["workers"]["total"], answer["counts"]["used"], answer["counts"]["capacity"]) == (
        1201,
        1,
        4,
    )
    assert len(fleet.owner.call("fleet_overview", p_org=fleet.id)["workers"]) == 1000
    with refused("RY422", "Live numbers are given for 1,000 runners at a time."):
        fleet.owner.call("fleet_overview", p_org=fleet.id, p_workers="{" + ",".join([here] * 1001) + "}")


def test_an_explanation_names_the_best_few_and_counts_the_rest(fleet: Organization) -> None:
    answer = fleet.owner.call("explain_queue", p_job=fleet.enqueue("a/c"))
    assert len(answer["runners"]) == 20
    assert answer["runners"][0]["name"] == "here"
    counts = {each["reason_code"]: each["count"] for each in answer["counts"]}
    assert sum(counts.values()) == 1201
    assert counts["ok"] == 1


def test_the_runners_of_a_path_come_in_the_order_they_are_tried(world: World) -> None:
    org = world.organization()
    org.module("a/b/c")
    near, far, everywhere, elsewhere = (org.worker(name) for name in ("near", "far", "everywhere", "elsewhere"))
    for worker in (near, far, elsewhere):
        org.owner.call("update_worker", p_worker=worker, p_options={"is_assigned_to_all_modules": False})
    for worker, path in ((near, "a/b"), (near, "a"), (far, "a")):
        org.owner.call("assign_worker", p_worker=worker, p_path=path)
    org.owner.call("update_worker", p_worker=everywhere, p_options={"is_assigned_to_all_modules": True})
    found = org.owner.call("path_runners", p_org=org.id, p_path="a/b")
    own = [row for row in found["rows"] if not row["is_shared"]]
    assert [(row["name"], row["path"]) for row in own] == [("near", "a/b"), ("far", "a"), ("everywhere", None)]
    assert found["total"] == len(found["rows"])
