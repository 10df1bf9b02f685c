"""The runners page's state: little is sent for a change, and only to whom it concerns."""

import json
from typing import Any

import pytest

from app.project.store import EVERYTHING, NOTHING, Changed, OrgStore
from app.runners.state.add_runner import AddRunnerState
from app.runners.state.runners import RunnersState
from app.runners.view.board import PAGE_SIZE, board_of
from app.runners.view.record import NAME_RULE
from app.shared.patches import MAX_PATCHES, shown

FLEET = 1000
LIMIT = 6 * 1024


def runner(number: int, **changes: Any) -> dict[str, Any]:
    row = {
        "id": f"00000000-0000-4000-8000-{number:012d}",
        "name": f"runner-{number:04d}",
        "type": "self-hosted",
        "region": None,
        "status": "ONLINE",
        "status_reason": "Ready",
        "version": "1.8.2",
        "created_at": "2026-11-01T10:00:00+00:00",
        "updated_at": "2026-11-01T10:00:00+00:00",
    }
    return {**row, **changes}


@pytest.fixture
def store() -> OrgStore:
    store = OrgStore("org")
    store.replace("workers", [runner(number) for number in range(FLEET)])
    store.is_loaded = True
    return store


@pytest.fixture
def state(store: OrgStore) -> RunnersState:
    state = RunnersState(_reflex_internal_init=True)
    show(state, store, EVERYTHING)
    state._clean()
    return state


def show(state: RunnersState, store: OrgStore, changed: Changed = NOTHING) -> None:
    state._show_runners(board_of(store), changed)
    state._show_jobs(board_of(store), store, changed)


def names(state: RunnersState) -> list[str]:
    return [row["name"] for row in shown(state.rows, state.patches).values()]


async def sent(state: RunnersState) -> dict[str, Any]:
    delta = await state._get_resolved_delta()
    state._clean()
    return {name.removesuffix("_rx_state_"): value for name, value in next(iter(delta.values()), {}).items()}


def test_a_page_of_the_fleet_is_shown_and_all_of_it_counted(state: RunnersState) -> None:
    assert len(state.rows) == PAGE_SIZE
    assert state.counts["all"] == state.match_count == FLEET


@pytest.mark.anyio
async def test_nothing_is_sent_when_nothing_that_is_shown_changed(state: RunnersState, store: OrgStore) -> None:
    later = "2026-11-01T10:00:09+00:00"
    store.put("workers", runner(FLEET - 1, updated_at=later, labels=["gpu=true"]))
    show(state, store)
    assert await sent(state) == {}


@pytest.mark.anyio
async def test_a_change_out_of_sight_sends_only_the_counts(state: RunnersState, store: OrgStore) -> None:
    store.put("workers", runner(FLEET - 1, status="OFFLINE", updated_at="2026-11-01T10:00:09+00:00"))
    show(state, store)
    delta = await sent(state)
    assert set(delta) == {"counts"}
    assert delta["counts"]["OFFLINE"] == 1


@pytest.mark.anyio
async def test_a_beat_does_not_send_rows(state: RunnersState, store: OrgStore) -> None:
    seen = [
        {"id": row["id"], "status": "ONLINE", "used": 1, "capacity": 2, "last_seen_at": "2026-11-01T10:00:05+00:00"}
        for row in store.rows("workers")
    ]
    store.set_overview({"workers": seen})
    show(state, store)
    delta = await sent(state)
    assert set(delta) == {"pulses"}
    assert len(delta["pulses"]) == PAGE_SIZE


@pytest.mark.anyio
async def test_one_changed_row_of_a_thousand_costs_little_more_than_its_page(
    state: RunnersState, store: OrgStore
) -> None:
    store.put("workers", runner(3, status="OFFLINE", updated_at="2026-11-01T10:00:09+00:00"))
    show(state, store)
    delta = await sent(state)
    assert set(delta) == {"patches", "counts", "flashes"}
    assert list(delta["flashes"]) == [runner(3)["id"]]
    assert len(json.dumps(delta)) < LIMIT


def test_the_same_row_is_tinted_again_by_another_name(state: RunnersState, store: OrgStore) -> None:
    tints = []
    for second in (1, 2, 3):
        store.put(
            "workers",
            runner(3, status="OFFLINE" if second % 2 else "ONLINE", updated_at=f"2026-11-01T10:00:0{second}+00:00"),
        )
        show(state, store)
        tints.append(next(iter(state.flashes.values())))
    assert tints == ["ry-changed", "ry-changed2", "ry-changed"]


@pytest.mark.anyio
async def test_when_much_changed_the_page_is_sent_whole_once(state: RunnersState, store: OrgStore) -> None:
    for number in range(MAX_PATCHES + 1):
        store.put("workers", runner(number, status="OFFLINE", updated_at="2026-11-01T10:00:09+00:00"))
    show(state, store)
    assert set(await sent(state)) == {"rows", "counts", "flashes"}
    store.put("workers", runner(0, updated_at="2026-11-01T10:00:10+00:00"))
    show(state, store)
    assert set(await sent(state)) == {"patches", "counts", "flashes"}
    assert [row["status"] for row in shown(state.rows, state.patches).values()][:2] == ["ONLINE", "OFFLINE"]


@pytest.mark.anyio
async def test_tabs_with_the_same_look_are_shown_the_very_same_rows(state: RunnersState, store: OrgStore) -> None:
    other = RunnersState(_reflex_internal_init=True)
    store.put("workers", runner(3, status="OFFLINE", updated_at="2026-11-01T10:00:09+00:00"))
    show(state, store)
    show(other, store, EVERYTHING)
    assert other.get_value("rows") is state.get_value("rows")
    assert other.get_value("patches") is state.get_value("patches")
    assert shown(other.rows, other.patches)[runner(3)["id"]]["status"] == "OFFLINE"


def test_only_the_row_that_changed_is_made_again(store: OrgStore) -> None:
    before = {row["id"]: row for row in board_of(store).rows}
    store.put("workers", runner(3, status="OFFLINE", updated_at="2026-11-01T10:00:09+00:00"))
    after = {row["id"]: row for row in board_of(store).rows}
    assert [key for key, row in after.items() if before[key] is not row] == [runner(3)["id"]]


def test_new_rows_wait_while_somebody_is_at_the_table() -> None:
    store, state = OrgStore("org"), RunnersState(_reflex_internal_init=True)
    store.replace("workers", [runner(2), runner(4), runner(6)])
    show(state, store, EVERYTHING)
    state._held_tables = frozenset({"runners"})
    store.put("workers", runner(1))
    store.put("workers", runner(5))
    store.put("workers", runner(4, status="OFFLINE", updated_at="2026-11-01T10:00:09+00:00"))
    show(state, store)
    assert names(state) == ["runner-0002", "runner-0004", "runner-0006"]
    assert shown(state.rows, state.patches)[runner(4)["id"]]["status"] == "OFFLINE"
    assert state.fresh_count == 2
    assert state.match_count == state.counts["all"] == 5
    store.drop("workers", runner(2)["id"])
    show(state, store)
    assert names(state) == ["runner-0004", "runner-0006"]
    state._held_tables = frozenset()
    show(state, store)
    assert names(state) == ["runner-0001", "runner-0004", "runner-0005", "runner-0006"]
    assert state.fresh_count == 0


def test_what_i_ask_for_comes_although_the_table_is_held() -> None:
    store, state = OrgStore("org"), RunnersState(_reflex_internal_init=True)
    store.replace("workers", [runner(2), runner(4)])
    show(state, store, EVERYTHING)
    state._held_tables = frozenset({"runners"})
    state.search = "0004"
    show(state, store, EVERYTHING)
    assert names(state) == ["runner-0004"]


def job(number: int, status: str, second: int = 0) -> dict[str, Any]:
    at = f"2026-11-01T10:00:{second:02d}+00:00"
    return {"id": number, "type": "PLAN", "status": status, "module_path": "a/b", "queued_at": at, "updated_at": at}


def test_jobs_that_are_looked_at_stay_where_they_are_until_one_leaves() -> None:
    store, state = OrgStore("org"), RunnersState(_reflex_internal_init=True)
    store.replace("provision_jobs", [job(1, "PROCESSING"), job(2, "QUEUED")])
    show(state, store, EVERYTHING)
    state._held_tables = frozenset({"jobs"})
    store.put("provision_jobs", job(1, "SUCCEEDED", 5))
    store.put("provision_jobs", job(3, "QUEUED", 5))
    show(state, store)
    assert [(item["id"], item["status"]) for item in state.jobs] == [(2, "QUEUED"), (1, "SUCCEEDED")]
    assert state.fresh_job_count == 1
    state._held_tables = frozenset()
    show(state, store)
    assert [item["id"] for item in state.jobs] == [3, 2]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("build-host-03", ""),
        ("prod eu", f"{NAME_RULE} A letter or digit at both ends. Try prod-eu."),
        ("Bad-Name!!", f"{NAME_RULE} A letter or digit at both ends. Try Bad-Name."),
        ("!!", f"{NAME_RULE} A letter or digit at both ends."),
        ("-x", f"{NAME_RULE} A letter or digit at both ends. Try x."),
    ],
)
def test_the_sheet_says_at_once_what_is_wrong_with_a_name(name: str, problem: str) -> None:
    sheet = AddRunnerState(_reflex_internal_init=True)
    sheet.set_name(name)
    assert sheet.name_problem == problem


def test_the_sheet_asks_before_a_token_that_was_not_copied_is_lost() -> None:
    sheet = AddRunnerState(_reflex_internal_init=True)
    sheet.is_open, sheet.worker_id = True, "w1"
    assert sheet.set_open(False) is None
    assert sheet.is_asking
    assert sheet.is_open
    sheet.copied()
    assert sheet.set_open(False) is not None
    assert not sheet.is_open
    assert sheet.worker_id == ""


def test_the_sheet_turns_green_with_the_first_beat_and_stays_so() -> None:
    store = OrgStore("org")
    store.put("workers", runner(1, status="OFFLINE"))
    sheet = AddRunnerState(_reflex_internal_init=True)
    sheet.is_open, sheet.worker_id, sheet.registered_at = True, str(runner(1)["id"]), "2020-01-01T00:00:00+00:00"
    sheet._watch(store)
    assert sheet.progress == "late"
    store.put("workers", runner(1, updated_at="2026-11-01T10:00:01+00:00"))
    sheet._watch(store)
    assert sheet.progress == "online"
    assert sheet.arrived.startswith("Version 1.8.2")
    store.put("workers", runner(1, status="OFFLINE", updated_at="2026-11-01T10:00:02+00:00"))
    sheet._watch(store)
    assert sheet.progress == "online"


def test_no_state_has_room_for_a_token() -> None:
    names = {name.lower() for name in AddRunnerState.base_vars}
    assert not [name for name in names if "token" in name or "secret" in name]
