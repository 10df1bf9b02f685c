"""The runners page's state: little is sent for a change, and only to whom it concerns."""

import json
from typing import Any

import pytest

from app.runners.board import board_of
from app.services.store import OrgStore
from app.states.add_runner import AddRunnerState
from app.states.runners import MAX_PATCHES, PAGE_SIZE, RunnersState

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
    state._show_runners(board_of(store))
    state._clean()
    return state


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
    state._show_runners(board_of(store))
    assert await sent(state) == {}


@pytest.mark.anyio
async def test_a_change_out_of_sight_sends_only_the_counts(state: RunnersState, store: OrgStore) -> None:
    store.put("workers", runner(FLEET - 1, status="OFFLINE", updated_at="2026-11-01T10:00:09+00:00"))
    state._show_runners(board_of(store))
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
    state._show_runners(board_of(store))
    delta = await sent(state)
    assert set(delta) == {"pulses"}
    assert len(delta["pulses"]) == PAGE_SIZE


@pytest.mark.anyio
async def test_one_changed_row_of_a_thousand_costs_little_more_than_its_page(
    state: RunnersState, store: OrgStore
) -> None:
    before = state._shown()
    store.put("workers", runner(3, status="OFFLINE", updated_at="2026-11-01T10:00:09+00:00"))
    state._show_runners(board_of(store))
    state._show_flashes(before)
    delta = await sent(state)
    assert set(delta) == {"patches", "counts", "flashes"}
    assert list(delta["flashes"]) == [runner(3)["id"]]
    assert len(json.dumps(delta)) < LIMIT


def test_the_same_row_is_tinted_again_by_another_name(state: RunnersState, store: OrgStore) -> None:
    names = []
    for second in (1, 2, 3):
        before = state._shown()
        store.put(
            "workers",
            runner(3, status="OFFLINE" if second % 2 else "ONLINE", updated_at=f"2026-11-01T10:00:0{second}+00:00"),
        )
        state._show_runners(board_of(store))
        state._show_flashes(before)
        names.append(next(iter(state.flashes.values())))
    assert names == ["ry-changed", "ry-changed2", "ry-changed"]


@pytest.mark.anyio
async def test_when_much_changed_the_page_is_sent_whole_once(state: RunnersState, store: OrgStore) -> None:
    for number in range(MAX_PATCHES + 1):
        store.put("workers", runner(number, status="OFFLINE", updated_at="2026-11-01T10:00:09+00:00"))
    state._show_runners(board_of(store))
    assert set(await sent(state)) == {"rows", "counts"}
    store.put("workers", runner(0, updated_at="2026-11-01T10:00:10+00:00"))
    state._show_runners(board_of(store))
    assert set(await sent(state)) == {"patches", "counts"}
    assert [row["status"] for row in state._shown().values()][:2] == ["ONLINE", "OFFLINE"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("build-host-03", ""),
        ("prod eu", "A name has no spaces. Try prod-eu."),
        ("-x", "Letters, digits, dots, dashes and underscores; a letter or digit at both ends."),
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
