"""The jobs page's state: little is sent for a change, and nothing moves under the pointer."""

import json
from typing import Any

import pytest

from app.jobs.state.jobs import PAGE_SIZE, JobsState
from app.project.store import EVERYTHING, Changed, OrgStore

LIMIT = 6 * 1024


def job(number: int, **changes: Any) -> dict[str, Any]:
    row = {
        "id": number,
        "type": "PLAN",
        "status": "QUEUED",
        "module_id": "m",
        "module_path": f"platform/network/module-{number}",
        "attempt": 0,
        "max_attempts": 3,
        "created_by_label": "ops@example.com",
        "created_at": "2026-11-15T14:00:00+00:00",
        "updated_at": "2026-11-15T14:00:00+00:00",
    }
    return {**row, **changes}


@pytest.fixture
def store() -> OrgStore:
    store = OrgStore("org")
    store.replace("provision_jobs", [job(number) for number in range(1, 101)])
    store.is_loaded = True
    return store


@pytest.fixture
async def state(store: OrgStore) -> JobsState:
    state = JobsState(_reflex_internal_init=True)
    state._held, state.total = [job(number) for number in range(100, 100 - PAGE_SIZE, -1)], 100
    await state._show(store, EVERYTHING)
    state._clean()
    return state


async def sent(state: JobsState) -> dict[str, Any]:
    delta = await state._get_resolved_delta()
    state._clean()
    return {name.removesuffix("_rx_state_"): value for name, value in next(iter(delta.values()), {}).items()}


def changed(*numbers: int) -> Changed:
    return Changed({"provision_jobs": frozenset(map(str, numbers))})


def ids(state: JobsState) -> list[int]:
    return [row["id"] for row in state.rows]


@pytest.mark.anyio
async def test_the_newest_come_first(state: JobsState) -> None:
    assert ids(state) == list(range(100, 100 - PAGE_SIZE, -1))


@pytest.mark.anyio
async def test_one_changed_job_is_sent_alone(state: JobsState, store: OrgStore) -> None:
    store.put("provision_jobs", job(90, status="PROCESSING", updated_at="2026-11-15T14:00:05+00:00"))
    await state._show(store, changed(90))
    delta = await sent(state)
    assert set(delta) <= {"patches", "flashes", "active_count"}
    assert delta["patches"]["90"]["status"] == "PROCESSING"
    assert len(json.dumps(delta)) < LIMIT


@pytest.mark.anyio
async def test_a_change_that_nobody_sees_sends_nothing(state: JobsState, store: OrgStore) -> None:
    store.put("provision_jobs", job(3, priority=50, updated_at="2026-11-15T14:00:05+00:00"))
    await state._show(store, changed(3))
    assert await sent(state) == {}


@pytest.mark.anyio
async def test_a_new_job_joins_at_the_top(state: JobsState, store: OrgStore) -> None:
    store.put("provision_jobs", job(101))
    await state._show(store, changed(101))
    assert ids(state)[:2] == [101, 100]
    assert (len(state.rows), state.total) == (PAGE_SIZE, 101)


@pytest.mark.anyio
async def test_new_jobs_wait_while_the_pointer_is_on_the_table(state: JobsState, store: OrgStore) -> None:
    state._is_held = True
    store.put("provision_jobs", job(101))
    await state._show(store, changed(101))
    assert (ids(state)[0], state.fresh_count) == (100, 1)
    state._is_held = False
    await state._show(store, EVERYTHING)
    assert (ids(state)[0], state.fresh_count) == (101, 0)


@pytest.mark.anyio
async def test_an_older_page_keeps_its_rows_and_renews_them(state: JobsState, store: OrgStore) -> None:
    state.page_number, state._held = 3, [job(7)]
    store.put("provision_jobs", job(7, status="FAILED", updated_at="2026-11-15T14:00:05+00:00"))
    store.put("provision_jobs", job(101))
    await state._show(store, changed(7, 101))
    assert [(row["id"], row["status"]) for row in state.rows] == [(7, "FAILED")]


@pytest.mark.anyio
async def test_a_job_that_no_longer_fits_the_filter_leaves(state: JobsState, store: OrgStore) -> None:
    state.view = "active"
    store.put("provision_jobs", job(100, status="SUCCEEDED", updated_at="2026-11-15T14:00:05+00:00"))
    await state._show(store, changed(100))
    assert (ids(state)[0], len(ids(state)), state.total) == (99, PAGE_SIZE, 99)
