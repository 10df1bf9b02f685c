"""The jobs page's state: little is sent for a change, and nothing moves under the pointer."""

import json
from typing import Any

import pytest

from app.jobs.state.jobs import PAGE_SIZE, JobsState
from app.jobs.view.rows import JobFilter
from app.live.patches import shown
from app.project.store import EVERYTHING, Changed, OrgStore

LIMIT = 6 * 1024


def job(number: int, **changes: Any) -> dict[str, Any]:
    row = {
        "id": number,
        "number": number,
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


def page(*rows: dict[str, Any], total: int = 0) -> dict[str, Any]:
    return {"total": total or len(rows), "counts": {"QUEUED": total or len(rows)}, "rows": list(rows)}


def answer(state: JobsState, store: OrgStore, given: dict[str, Any]) -> None:
    store.live_queries.take(store.live_queries.hold(state._query()), given)


@pytest.fixture
def store() -> OrgStore:
    store = OrgStore("org")
    store.is_loaded = True
    return store


@pytest.fixture
async def state(store: OrgStore) -> JobsState:
    state = JobsState(_reflex_internal_init=True)
    answer(state, store, page(*(job(number) for number in range(100, 100 - PAGE_SIZE, -1)), total=220_000))
    await state._show(store, EVERYTHING)
    state._clean()
    return state


async def sent(state: JobsState) -> dict[str, Any]:
    delta = await state._get_resolved_delta()
    state._clean()
    return {name.removesuffix("_rx_state_"): value for name, value in next(iter(delta.values()), {}).items()}


def changed(state: JobsState, *numbers: int) -> Changed:
    return Changed({"provision_jobs": frozenset(map(str, numbers)), state._query().key: frozenset()})


def ids(state: JobsState) -> list[int]:
    return [row["id"] for row in state.rows]


@pytest.mark.anyio
async def test_a_page_is_shown_and_everything_counted(state: JobsState) -> None:
    assert ids(state) == list(range(100, 100 - PAGE_SIZE, -1))
    assert (state.total, state.all_count, state.active_count, state.needs_count) == (220_000, 220_000, 220_000, 0)


@pytest.mark.anyio
async def test_one_changed_job_is_sent_alone(state: JobsState, store: OrgStore) -> None:
    store.put("provision_jobs", job(90, status="PROCESSING", updated_at="2026-11-15T14:00:05+00:00"))
    await state._show(store, changed(state, 90))
    delta = await sent(state)
    assert set(delta) == {"patches", "flashes"}
    assert delta["patches"]["90"]["status"] == "PROCESSING"
    assert len(json.dumps(delta)) < LIMIT


@pytest.mark.anyio
async def test_a_change_that_nobody_sees_sends_nothing(state: JobsState, store: OrgStore) -> None:
    store.put("provision_jobs", job(3, priority=50, updated_at="2026-11-15T14:00:05+00:00"))
    await state._show(store, changed(state, 3))
    assert await sent(state) == {}


def newer(count: int = PAGE_SIZE) -> dict[str, Any]:
    return page(*(job(number) for number in range(101, 101 - count, -1)), total=220_001)


@pytest.mark.anyio
async def test_a_new_job_joins_with_the_next_answer(state: JobsState, store: OrgStore) -> None:
    answer(state, store, newer())
    await state._show(store, changed(state, 101))
    assert ids(state)[:2] == [101, 100]
    assert (len(state.rows), state.total) == (PAGE_SIZE, 220_001)


@pytest.mark.anyio
async def test_new_jobs_wait_while_the_pointer_is_on_the_table(state: JobsState, store: OrgStore) -> None:
    state.is_held = True
    answer(state, store, newer())
    await state._show(store, changed(state, 101))
    assert (ids(state)[0], state.fresh_count) == (100, 1)
    state.is_held = False
    await state._show(store, EVERYTHING)
    assert (ids(state)[0], state.fresh_count) == (101, 0)


@pytest.mark.anyio
async def test_a_job_that_leaves_the_filter_stays_while_somebody_is_at_the_table(
    state: JobsState, store: OrgStore
) -> None:
    state.is_held = True
    store.put("provision_jobs", job(100, status="SUCCEEDED", updated_at="2026-11-15T14:00:05+00:00"))
    answer(state, store, page(*(job(number) for number in range(99, 99 - PAGE_SIZE, -1)), total=219_999))
    await state._show(store, changed(state, 100))
    row = shown(state.rows, state.patches)["100"]
    assert (ids(state)[0], row["status"], state.total) == (100, "SUCCEEDED", 219_999)


@pytest.mark.anyio
async def test_another_filters_rows_are_never_shown_under_this_one(state: JobsState, store: OrgStore) -> None:
    state._take(JobFilter(view="active"))
    before = list(state.rows)
    await state._show(store, EVERYTHING)
    assert list(state.rows) == before, "the page waits for its own answer"
    assert state.is_filtered
