"""A job's page: the answer of job_page(), with the row as it was last received."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import reflex as rx
from reflex.istate.data import RouterData

from app.frame.session import SessionState
from app.http.cookies import NAME
from app.jobs.state.actions import JobActionState
from app.jobs.state.job import JobState
from app.project.live_queries import live_query
from app.project.models import BrowserSession
from app.project.runtime import runtime
from app.project.store import AGAIN, EVERYTHING, Changed, OrgStore

QUERY = live_query("job_page", ("job:3", "approvals", "job_comments", "memberships", AGAIN), number=3)
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
    "checks": [],
    "checked_by": None,
    "own_approval": "",
    "approvers": None,
    "requesters": ["me"],
    "variables": [],
    "state": {"serial": 4, "versions": []},
    "kept": None,
    "record": None,
    "policy_test": None,
    "why": None,
    "target": None,
    "instance": None,
}


@pytest.fixture
async def state(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JobState]:
    async def no_server(*_: Any) -> None:
        """Queries are answered by the tests' stores alone."""

    monkeypatch.setattr(runtime().hub, "ask", no_server)
    sessions = runtime().authorized.sessions
    await sessions.put(BrowserSession("viewer", "me", "ops@example.com", "a", "r", 9e12, 0.0))
    root = rx.State(_reflex_internal_init=True)
    page = {"asPath": "/dashboard/jobs/3", "pathname": "/dashboard/jobs/[number]"}
    root.router = RouterData.from_router_data({**page, "token": "tab", "headers": {"cookie": f"{NAME}=viewer"}})
    state = await root.get_state(JobState)
    (await state.get_state(SessionState)).user_id = "me"
    yield state
    await sessions.delete("viewer")


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
    assert state.newer_serial == -1
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


async def test_a_comment_is_sent_and_shown_at_once(state: JobState, monkeypatch: pytest.MonkeyPatch) -> None:
    comment = {"id": 1, "user_label": "ops@example.com", "body": "Looks right.", "created_at": JOB["created_at"]}
    sent: list[tuple[str, Any]] = []
    store = answered()

    async def rpc(_: BrowserSession, name: str, args: dict[str, Any]) -> None:
        sent.append((name, args))

    async def opened(*_: Any) -> OrgStore:
        return store

    async def renew(*_: Any) -> None:
        store.live_queries.hold(QUERY).set({**PAGE, "comments": [comment]})

    monkeypatch.setattr(runtime().authorized, "rpc", rpc)
    monkeypatch.setattr(runtime().hub, "open", opened)
    monkeypatch.setattr(runtime().hub, "renew", renew)
    await state._show(store, EVERYTHING)
    actions = await state.get_state(JobActionState)
    await JobActionState.say.fn(actions, {"body": " Looks right. "})
    assert sent == [("comment_on_job", {"p_job": 7, "p_body": "Looks right."})]
    assert [shown["body"] for shown in state.comments] == ["Looks right."]
