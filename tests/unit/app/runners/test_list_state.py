"""The runners page's state: little is sent for a change, and only to the tabs that it concerns."""

import json
from typing import Any

import pytest
import reflex as rx

from app.live.page import ALWAYS
from app.live.patches import MAX_PATCHES, draw, shown
from app.project.store import EVERYTHING, NOTHING, Changed, OrgStore
from app.runners.state.add_runner import AddRunnerState
from app.runners.state.bulk import say_selection
from app.runners.state.runners import PAGE_SIZE, RunnersState
from app.runners.view.filters import RunnerFilter, choices, read, say_values
from app.runners.view.form import NAME_RULE

FLEET = 5000
LIMIT = 6 * 1024
LATER = "2026-11-01T10:00:09+00:00"


def runner(number: int, **changes: Any) -> dict[str, Any]:
    row = {
        "id": f"00000000-0000-4000-8000-{number:012d}",
        "name": f"runner-{number:04d}",
        "type": "self-hosted",
        "region": None,
        "status": "ONLINE",
        "status_reason": "Ready",
        "version": "1.8.2",
        "health": ["healthy"],
        "processes": [],
        "pulses": {},
        "created_at": "2026-11-01T10:00:00+00:00",
        "updated_at": "2026-11-01T10:00:00+00:00",
    }
    return {**row, **changes}


def page(rows: list[dict[str, Any]], total: int = 0, **counts: int) -> dict[str, Any]:
    return {"total": total or len(rows), "counts": counts or {"ONLINE": total or len(rows)}, "rows": rows}


def answer(state: RunnersState, store: OrgStore, runners: dict[str, Any] | None, jobs: dict[str, Any] | None) -> None:
    """Have the state's live queries answered as the database would."""
    for query, given in zip(state._queries(), (runners, jobs), strict=False):
        if given is not None:
            store.live_queries.take(store.live_queries.hold(query), given)


@pytest.fixture
def store() -> OrgStore:
    store = OrgStore("org")
    store.is_loaded = True
    return store


@pytest.fixture
def state(store: OrgStore) -> RunnersState:
    state = RunnersState(_reflex_internal_init=True)
    answer(state, store, page([runner(number) for number in range(PAGE_SIZE)], FLEET), page([]))
    show(state, store, EVERYTHING)
    state._clean()
    return state


def show(state: RunnersState, store: OrgStore, changed: Changed = NOTHING) -> None:
    runners, jobs, _ = (store.live_queries.held(query) for query in state._queries())
    assert runners is not None
    state._show_runners(runners, changed)
    if jobs is not None:
        state._show_jobs(jobs, store, changed)


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
    store.put("workers", runner(FLEET - 1, updated_at=LATER))
    store.put("workers", runner(3, updated_at=LATER, capacity=7))
    show(state, store)
    assert await sent(state) == {}


@pytest.mark.anyio
async def test_a_change_out_of_sight_sends_only_the_counts(state: RunnersState, store: OrgStore) -> None:
    rows = [runner(number) for number in range(PAGE_SIZE)]
    answer(state, store, page(rows, FLEET, ONLINE=FLEET - 1, OFFLINE=1), None)
    show(state, store)
    delta = await sent(state)
    assert set(delta) == {"counts"}
    assert delta["counts"]["OFFLINE"] == 1


@pytest.mark.anyio
async def test_a_heartbeat_does_not_send_rows(state: RunnersState, store: OrgStore) -> None:
    rows = [runner(number, used=1, slots=2, last_seen_at=LATER) for number in range(PAGE_SIZE)]
    answer(state, store, page(rows, FLEET), None)
    show(state, store)
    delta = await sent(state)
    assert set(delta) == {"pulses"}
    assert len(delta["pulses"]) == PAGE_SIZE


@pytest.mark.anyio
async def test_one_changed_row_costs_little(state: RunnersState, store: OrgStore) -> None:
    store.put("workers", runner(3, status="OFFLINE", updated_at=LATER))
    show(state, store)
    delta = await sent(state)
    assert set(delta) == {"patches", "flashes"}
    assert list(delta["flashes"]) == [runner(3)["id"]]
    assert len(json.dumps(delta)) < LIMIT


def test_the_same_row_is_tinted_again_by_another_name(state: RunnersState, store: OrgStore) -> None:
    tints = []
    for second in (1, 2, 3):
        status = "OFFLINE" if second % 2 else "ONLINE"
        store.put("workers", runner(3, status=status, updated_at=f"2026-11-01T10:00:0{second}+00:00"))
        show(state, store)
        tints.append(next(iter(state.flashes.values())))
    assert tints == ["ry-changed", "ry-changed2", "ry-changed"]


@pytest.mark.anyio
async def test_when_much_changed_the_page_is_sent_whole_once(state: RunnersState, store: OrgStore) -> None:
    for number in range(MAX_PATCHES + 1):
        store.put("workers", runner(number, status="OFFLINE", updated_at=LATER))
    show(state, store)
    assert set(await sent(state)) == {"rows", "flashes"}
    store.put("workers", runner(0, updated_at="2026-11-01T10:00:10+00:00"))
    show(state, store)
    assert set(await sent(state)) == {"patches", "flashes"}
    assert [row["status"] for row in shown(state.rows, state.patches).values()][:2] == ["ONLINE", "OFFLINE"]


def test_tabs_with_the_same_query_share_their_rows(state: RunnersState, store: OrgStore) -> None:
    other = RunnersState(_reflex_internal_init=True)
    show(other, store, EVERYTHING)
    assert other.get_value("rows") is state.get_value("rows")


def held(state: RunnersState, *tables: str) -> None:
    state.held_tables = list(tables)


def test_new_rows_wait_while_somebody_is_at_the_table(store: OrgStore) -> None:
    state = RunnersState(_reflex_internal_init=True)
    answer(state, store, page([runner(2), runner(4), runner(6)]), None)
    show(state, store, EVERYTHING)
    held(state, "runners")
    gone = runner(4, status="OFFLINE", updated_at=LATER)
    answer(state, store, page([runner(1), runner(2), gone, runner(5), runner(6)]), None)
    show(state, store)
    assert names(state) == ["runner-0002", "runner-0004", "runner-0006"]
    assert shown(state.rows, state.patches)[runner(4)["id"]]["status"] == "OFFLINE"
    assert state.fresh_count == 2
    assert state.match_count == state.counts["all"] == 5
    held(state)
    show(state, store)
    assert names(state) == ["runner-0001", "runner-0002", "runner-0004", "runner-0005", "runner-0006"]
    assert state.fresh_count == 0


def test_my_own_search_is_shown_while_somebody_is_at_the_table(store: OrgStore) -> None:
    state = RunnersState(_reflex_internal_init=True)
    answer(state, store, page([runner(2), runner(4)]), None)
    show(state, store, EVERYTHING)
    held(state, "runners")
    state._take(RunnerFilter(search="0004"))
    answer(state, store, page([runner(4)]), None)
    show(state, store, EVERYTHING)
    assert names(state) == ["runner-0004"]


def test_another_filters_rows_are_never_shown_under_this_one(state: RunnersState, store: OrgStore) -> None:
    state._take(RunnerFilter(status="OFFLINE"))
    assert next(store.live_queries.held(query) for query in state._queries()) is None, "nobody has asked for these yet"


def job(number: int, status: str, second: int = 0) -> dict[str, Any]:
    at = f"2026-11-01T10:00:{second:02d}+00:00"
    return {
        "id": number,
        "number": number,
        "type": "PLAN",
        "status": status,
        "module_path": "a/b",
        "queued_at": at,
        "updated_at": at,
    }


def test_jobs_keep_their_order_while_somebody_is_at_the_table(store: OrgStore) -> None:
    state = RunnersState(_reflex_internal_init=True)
    answer(state, store, page([runner(1)]), page([job(1, "PROCESSING"), job(2, "QUEUED")]))
    show(state, store, EVERYTHING)
    held(state, "jobs")
    store.put("provision_jobs", job(1, "SUCCEEDED", 5))
    answer(state, store, None, page([job(3, "QUEUED", 5), job(2, "QUEUED")]))
    show(state, store)
    assert [(item["id"], item["status"]) for item in state.jobs] == [(1, "SUCCEEDED"), (2, "QUEUED")]
    assert state.fresh_job_count == 1
    held(state)
    show(state, store)
    assert [item["id"] for item in state.jobs] == [3, 2]


def test_a_filter_is_written_to_the_address_and_read_from_it() -> None:
    chosen = RunnerFilter("OFFLINE", "edge", "-name", ("gpu=true",), ("1.8.2",), (), ("degraded", "outdated"))
    asked = {
        "status": "offline",
        "q": "edge",
        "sort": "-name",
        "label": "gpu=true",
        "version": ["1.8.2"],
        "health": ["degraded", "outdated"],
    }
    assert read(asked) == chosen
    assert chosen.query() == (
        "?status=OFFLINE&q=edge&sort=-name&label=gpu%3Dtrue&version=1.8.2&health=degraded&health=outdated"
    )
    assert chosen.arguments()["filters"] == {
        "status": ["OFFLINE"],
        "label": ["gpu=true"],
        "version": ["1.8.2"],
        "health": ["degraded", "outdated"],
    }
    assert RunnerFilter().query() == ""


@pytest.mark.parametrize(
    "bad", [{"status": "ASLEEP"}, {"health": "blue"}, {"sort": "colour"}, {"label": ""}, {"region": "x" * 201}]
)
def test_an_unknown_choice_changes_nothing(bad: dict[str, str]) -> None:
    assert read(bad) == RunnerFilter()


def test_chips_list_the_most_frequent_values_first_and_include_the_chosen_one() -> None:
    facets = {"counts": {"label": {"a=1": 3, "b=2": 9}, "health": {"healthy": 12}}}
    offered = choices(facets, RunnerFilter(label=("gone=1",)))
    assert [(item["value"], item["count"], item["is_on"]) for item in offered["label"]] == [
        ("b=2", 9, False),
        ("a=1", 3, False),
        ("gone=1", 0, True),
    ]
    assert offered["health"][0]["word"] == "Healthy"
    assert (say_values("region", ()), say_values("region", ("eu", "us", "ap"))) == ("", "eu and 2 more")


def test_a_selection_is_described_in_numbers() -> None:
    assert say_selection([("ONLINE", 2), ("ONLINE", 0), ("OFFLINE", 0)]) == "2 online, 1 offline · 2 jobs running"
    assert say_selection([]) == ""


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
def test_the_sheet_shows_at_once_why_a_name_is_invalid(name: str, problem: str) -> None:
    sheet = AddRunnerState(_reflex_internal_init=True)
    sheet.set_name(name)
    assert sheet.name_problem == problem


def test_the_sheet_requires_confirmation_before_it_drops_a_token_that_was_not_copied() -> None:
    sheet = AddRunnerState(_reflex_internal_init=True)
    sheet.is_open, sheet.worker_id = True, "w1"
    assert sheet.set_open(False) is None
    assert sheet.is_asking
    assert sheet.is_open
    sheet.copied()
    assert sheet.set_open(False) is not None
    assert not sheet.is_open
    assert sheet.worker_id == ""


async def test_the_sheet_turns_green_with_the_first_heartbeat_and_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [runner(1, status="OFFLINE"), runner(1), runner(1, status="OFFLINE")]

    async def answer(_sheet: AddRunnerState, name: str, _arguments: dict[str, Any]) -> Any:
        assert name == "list_runners"
        return {"rows": [answers.pop(0)]}

    async def organisation(_sheet: AddRunnerState) -> str:
        return "org"

    monkeypatch.setattr(AddRunnerState, "_rpc", answer)
    monkeypatch.setattr(AddRunnerState, "_org_id", organisation)
    sheet = AddRunnerState(_reflex_internal_init=True)
    sheet.is_open, sheet.worker_id, sheet.registered_at = True, str(runner(1)["id"]), "2020-01-01T00:00:00+00:00"
    await sheet._watch()
    assert sheet.progress == "late"
    await sheet._watch()
    assert sheet.progress == "online"
    assert sheet.arrived.startswith("Version 1.8.2")
    await sheet._watch()
    assert sheet.progress == "online"


def test_no_state_has_room_for_a_token() -> None:
    names = {name.lower() for name in AddRunnerState.base_vars}
    assert not [name for name in names if "token" in name or "secret" in name]


async def twenty_tabs(store: OrgStore) -> list[RunnersState]:
    """Tabs that show the same page of the same fleet."""
    tabs = [rx.State(_reflex_internal_init=True).substates[RunnersState.get_name()] for _ in range(20)]
    states = [tab for tab in tabs if isinstance(tab, RunnersState)]
    answer(states[0], store, page([runner(number) for number in range(PAGE_SIZE)], FLEET), page([]))
    for state in states:
        await state._show(store, EVERYTHING)
        state._clean()
    return states


@pytest.mark.anyio
async def test_an_update_for_tabs_with_the_same_page_is_computed_once(
    store: OrgStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[object] = []
    monkeypatch.setattr("app.live.page.draw", lambda *given: drawn.append(given) or draw(*given))
    states = await twenty_tabs(store)
    for second in (1, 2):
        drawn.clear()
        later = f"2026-11-01T10:00:0{second}+00:00"
        store.put("workers", runner(3, status="OFFLINE", status_reason=later, updated_at=later))
        for state in states:
            await state._show(store, Changed({state._queries()[0].key: frozenset()}))
        deltas = [await sent(state) for state in states]
        assert all(delta == deltas[0] for delta in deltas)
        # The very same objects: by that the delivery sees that one encoding does for all.
        assert {len({id(delta[name]) for delta in deltas}) for name in deltas[0]} == {1}
        assert deltas[0].keys() == {"patches", "flashes"}
    assert len(drawn) == 1


@pytest.mark.anyio
async def test_an_answer_that_shows_the_same_sends_nothing_and_keeps_its_rows(store: OrgStore) -> None:
    states = await twenty_tabs(store)
    rows = states[0].get_value("rows")
    answer(states[0], store, page([runner(number, capacity=7) for number in range(PAGE_SIZE)], FLEET), None)
    for state in states:
        await state._show(store, Changed({state._queries()[0].key: frozenset()}))
        assert await sent(state) == {}
        assert state.get_value("rows") is rows


def test_an_overview_with_the_same_numbers_concerns_no_tab(store: OrgStore) -> None:
    topics = RunnersState.TOPICS | ALWAYS
    heard: list[str] = []
    store.listen(lambda topic, _: heard.append(topic))
    for server_time in ("10:00", "10:05"):
        heard.clear()
        store.set_overview({"counts": {"workers": {"total": 3}, "used": 1, "capacity": 4}, "server_time": server_time})
    assert heard == ["overview"]
    assert not topics & {"overview"}
