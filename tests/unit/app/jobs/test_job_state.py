"""A job's page: the answer of job_page(), with the row as it was last received."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.jobs.state.job import JobState
from app.project.live_queries import live_query
from app.project.store import AGAIN, EVERYTHING, Changed, OrgStore

QUERY = live_query("job_page", ("job:3", AGAIN), number=3)
JOB = {
    "id": 7,
    "number": 3,
    "type": "PLAN",
    "status": "SUCCEEDED",
    "attempt": 1,
    "module_id": "m",
    "created_by": "me",
    "planned_serial": 4,
    "created_at": "2026-11-15T14:00:00+00:00",
    "updated_at": "2026-11-15T14:00:00+00:00",
}
PAGE: dict[str, Any] = {
    "job": JOB,
    "plan": None,
    "events": [{"id": 1, "job_id": 7, "event": "succeeded", "at": JOB["updated_at"]}],
    "comments": [],
    "approvals": [],
    "numbers": {},
    "checked_by": None,
    "own_approval": "",
    "requesters": ["me"],
    "variables": [],
    "state": {"serial": 4, "versions": []},
    "kept": None,
    "why": None,
    "target": None,
    "instance": None,
}


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> JobState:
    async def nothing(*_: Any) -> None:
        """No other source is queried here."""

    async def who(self: JobState) -> Any:
        return SimpleNamespace(user_id="me", org_id="org", _ask_verbs=nothing)

    monkeypatch.setattr(JobState, "_query", lambda _: QUERY)
    monkeypatch.setattr(JobState, "_who", who)
    monkeypatch.setattr(JobState, "_watch_lease", nothing)
    monkeypatch.setattr(JobState, "_show_lease", lambda *_: None)
    return JobState(_reflex_internal_init=True)


def answered(**more: Any) -> OrgStore:
    store = OrgStore("org")
    store.live_queries.hold(QUERY).set({**PAGE, **more})
    return store


def is_asked_again(store: OrgStore) -> bool:
    return store.live_queries.hold(QUERY).is_old


async def test_a_row_newer_than_the_answer_is_shown_at_once_and_the_answer_is_requested_again(
    state: JobState,
) -> None:
    store = answered(job={**JOB, "status": "PROCESSING"}, events=[])
    store.is_loaded = True
    await state._show(store, EVERYTHING)
    assert state.view["status"] == "PROCESSING"
    store.put("provision_jobs", {**JOB, "updated_at": "2026-11-15T14:00:09+00:00"})
    assert is_asked_again(store)
    await state._show(store, Changed({"provision_jobs": frozenset({"7"})}))
    assert (state.view["status"], state.events) == ("SUCCEEDED", [])
    store.live_queries.hold(QUERY).set(PAGE)
    await state._show(store, Changed({QUERY.key: frozenset()}))
    assert [event["words"] for event in state.events] == ["Succeeded"]


async def test_a_row_of_another_module_causes_no_new_request(state: JobState) -> None:
    store = answered()
    await state._show(store, EVERYTHING)
    store.put("provision_jobs", {**JOB, "id": 8, "number": 4, "module_id": "other"})
    await state._show(store, Changed({"provision_jobs": frozenset({"8"})}))
    assert not is_asked_again(store)


async def test_a_plan_is_requested_again_when_another_job_of_its_module_changes(state: JobState) -> None:
    store = answered()
    await state._show(store, EVERYTHING)
    assert state.newer_serial == 0
    store.put("provision_jobs", {**JOB, "id": 8, "number": 4})
    await state._show(store, Changed({"provision_jobs": frozenset({"8"})}))
    assert is_asked_again(store)
    store.live_queries.hold(QUERY).set({**PAGE, "state": {"serial": 5, "versions": []}})
    await state._show(store, Changed({QUERY.key: frozenset()}))
    assert state.newer_serial == 5


async def test_changes_missed_before_the_channel_was_joined_are_requested(state: JobState) -> None:
    store = answered()
    await state._show(store, EVERYTHING)
    store.notify(AGAIN)
    assert is_asked_again(store)


@pytest.mark.parametrize(("requester", "rule"), [("me", "others"), ("you", "")])
async def test_only_a_requester_is_kept_from_approving(state: JobState, requester: str, rule: str) -> None:
    store = answered(requesters=["system", requester], own_approval="others")
    await state._show(store, EVERYTHING)
    assert state.own_rule == rule


async def test_one_kind_of_a_plan_is_shown_alone(state: JobState) -> None:
    resources = [{"address": f"a.{place}", "action": "create"} for place in range(9)]
    summary = {"create": 9, "delete": 1, "resources": [*resources, {"address": "b", "action": "delete"}]}
    await state._show(answered(job={**JOB, "plan_summary": summary}), EVERYTHING)
    assert (len(state.plan.resources), state.more_resources) == (7, 3)
    state.choose_kind("delete")
    assert ([each.address for each in state.plan.resources], state.more_resources) == (["b"], 0)
    assert (state.plan.creates, state.plan.deletes) == (9, 1)
    state.choose_kind("delete")
    assert state.more_resources == 3
