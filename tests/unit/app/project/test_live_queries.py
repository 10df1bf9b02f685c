"""Live queries: one answer for all equal queries, changed rows at once, everything else with the next answer."""

import asyncio
from typing import Any, cast

import pytest

from app.project.asker import Asker, Turns
from app.project.authorized_client import AuthorizedClient
from app.project.errors import NotThere, Unreachable
from app.project.live_queries import LiveQuery, live_query
from app.project.models import BrowserSession
from app.project.store import Link, OrgStore
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio
RUNNERS = live_query("list_runners", ("workers", "overview"), "workers", limit=50)
ME = BrowserSession("sid", "me", "me@example.com", "token", "refresh", 0.0, 0.0)


def worker(key: str, second: int = 0, **changes: Any) -> dict[str, Any]:
    return {"id": key, "status": "ONLINE", "updated_at": f"2026-11-15T10:00:{second:02d}+00:00", "used": 0, **changes}


def page(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"total": len(rows), "counts": {"ONLINE": len(rows)}, "rows": list(rows)}


class FakeAuthorizedClient:
    """A database that gives prepared answers and records the requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def rpc(self, _session: BrowserSession, name: str, arguments: dict[str, Any]) -> Any:
        self.asked.append((name, arguments))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def setting(*answers: Any, link: Link = Link.LIVE) -> tuple[OrgStore, FakeAuthorizedClient, Asker, list[str]]:
    store, authorized = OrgStore("org"), FakeAuthorizedClient(*answers)
    store.is_loaded, store.link = True, link
    notified: list[str] = []
    store.listen(lambda topic, _row: notified.append(topic))

    async def member() -> BrowserSession:
        return ME

    calm = asyncio.Event()
    calm.set()
    return store, authorized, Asker(store, cast("AuthorizedClient", authorized), member, Turns(calm)), notified


def shown(store: OrgStore, asked: LiveQuery = RUNNERS) -> list[tuple[str, str]]:
    held = store.live_queries.held(asked)
    assert held is not None
    return [(row["id"], row["status"]) for row in held.rows()]


async def test_equal_queries_share_one_answer() -> None:
    store, authorized, asker, notified = setting(page(worker("a")))
    for _ in range(3):
        held = await asker.answer(RUNNERS, ME)
    assert held.make("rows", lambda held: held.rows()) is held.make("rows", lambda held: held.rows())
    assert authorized.asked == [("list_runners", {"p_org": "org", "p_limit": 50})]
    assert (shown(store), notified) == ([("a", "ONLINE")], [])


async def test_without_realtime_every_query_reaches_the_database() -> None:
    _store, authorized, asker, _notified = setting(page(worker("a")), link=Link.POLLING)
    await asker.answer(RUNNERS, ME)
    await asker.answer(RUNNERS, ME)
    assert len(authorized.asked) == 2


async def test_a_changed_row_is_shown_before_the_next_request_to_the_database() -> None:
    store, authorized, asker, notified = setting(page(worker("a"), worker("b")))
    await asker.answer(RUNNERS, ME)
    store.put("workers", worker("b", 5, status="OFFLINE"))
    assert shown(store) == [("a", "ONLINE"), ("b", "OFFLINE")]
    assert notified == [RUNNERS.key, "workers"]
    assert len(authorized.asked) == 1


async def test_a_row_outside_the_answer_is_requested_and_not_inserted() -> None:
    store, _authorized, asker, _notified = setting(page(worker("a")))
    held = await asker.answer(RUNNERS, ME)
    store.put("workers", worker("elsewhere", 5))
    assert shown(store) == [("a", "ONLINE")]
    assert held.is_old


async def test_an_older_answer_does_not_undo_a_newer_change() -> None:
    store, _authorized, asker, _notified = setting(page(worker("a")))
    await asker.answer(RUNNERS, ME)
    store.put("workers", worker("a", 5, status="OFFLINE"))
    store.live_queries.take(store.live_queries.hold(RUNNERS), page(worker("a", 0)))
    assert shown(store) == [("a", "OFFLINE")]
    store.live_queries.take(store.live_queries.hold(RUNNERS), page(worker("a", 9)))
    assert shown(store) == [("a", "ONLINE")]


async def test_a_heartbeat_notifies_as_one_and_the_same_answer_not_at_all() -> None:
    store, _authorized, asker, notified = setting(page(worker("a")))
    held = await asker.answer(RUNNERS, ME)
    store.live_queries.take(held, page(worker("a")))
    store.live_queries.take(held, page(worker("a", used=1)))
    store.live_queries.take(held, page(worker("a", used=1, status="DRAINING")))
    assert notified == [RUNNERS.heartbeat, RUNNERS.key]


async def test_old_answers_are_requested_again_automatically() -> None:
    store, authorized, asker, notified = setting(page(worker("a")), page(worker("a"), worker("b")))
    await asker.answer(RUNNERS, ME)
    running = asyncio.create_task(asker.run())
    store.notify("overview")

    async def is_there() -> bool:
        return len(shown(store)) == 2

    await eventually(is_there)
    running.cancel()
    assert (len(authorized.asked), notified) == (2, ["overview", RUNNERS.key])


async def test_requests_during_a_storm_pause_in_proportion_to_their_duration() -> None:
    _store, _authorized, asker, _notified = setting(page(worker("a")))
    held = await asker.answer(RUNNERS, ME)
    held.asked_at, held.ended_at = 10.0, 10.2
    assert held.pause(10.2) == pytest.approx(0.6), "three times as long as it took"
    assert held.pause(10.2, feeds=20) == pytest.approx(12.0), "all feeds together a quarter of the time"
    held.asked_at, held.ended_at = 10.0, 10.001
    assert held.pause(10.001) == pytest.approx(0.1)
    assert held.pause(20.0) == 0.0


async def test_an_unreachable_database_leaves_the_last_answer_shown_and_marked_old() -> None:
    store, _authorized, asker, _notified = setting(page(worker("a")), Unreachable())
    held = await asker.answer(RUNNERS, ME)
    with pytest.raises(Unreachable):
        await asker.ask_all(ME, 0.0)
    assert held.is_old
    assert shown(store) == [("a", "ONLINE")]


async def test_a_failed_request_is_repeated_without_another_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.project.asker.RETRY_SECONDS", 0.01)
    store, _authorized, asker, _notified = setting(
        page(worker("a")), Unreachable(), page(worker("a", status="OFFLINE"))
    )
    await asker.answer(RUNNERS, ME)
    running = asyncio.create_task(asker.run())
    store.notify("overview")

    async def is_shown() -> bool:
        return shown(store) == [("a", "OFFLINE")]

    await eventually(is_shown)
    running.cancel()


async def test_a_change_without_an_event_is_found() -> None:
    _store, _authorized, asker, _notified = setting(
        page(worker("a"), worker("b")), page(worker("a", 5), worker("b"), worker("c"))
    )
    await asker.answer(RUNNERS, ME)
    assert await asker.ask_all(ME, before_at=2e9) == {("workers", "a")}


async def test_a_refused_query_is_forgotten_and_one_that_is_refused_later_ends_nobodys_feed() -> None:
    store, authorized, asker, _notified = setting(NotThere("gone"), page(worker("a")), NotThere("gone"))
    with pytest.raises(NotThere):
        await asker.answer(RUNNERS, ME)
    assert store.live_queries.all() == []
    await asker.answer(RUNNERS, ME)
    assert await asker.ask_all(ME, before_at=2e9) == set()
    assert len(authorized.asked) == 3
    assert shown(store) == [("a", "ONLINE")]


async def test_queries_without_viewers_are_forgotten() -> None:
    store, _authorized, asker, _notified = setting(page(worker("a")))
    other = live_query("list_runners", ("workers",), "workers", limit=25)
    await asker.answer(RUNNERS, ME)
    await asker.answer(other, ME)
    store.live_queries.keep([other.key])
    assert store.live_queries.held(RUNNERS) is None
    assert store.live_queries.held(other) is not None


async def test_a_malformed_report_does_not_spoil_a_list() -> None:
    jobs = live_query("list_jobs", ("provision_jobs",), "provision_jobs")
    bad = {"id": 7, "status": "FAILED", "error": "not an object", "steps": 3, "updated_at": "2026-11-15T10:00:00+00:00"}
    store, _authorized, asker, _notified = setting({"total": 1, "counts": {}, "rows": [bad]})
    held = await asker.answer(jobs, ME)
    assert held.rows()[0]["steps"] == []
    assert store.live_queries.all() == [held]


async def test_a_runners_page_is_read_again_although_its_row_is_not_kept() -> None:
    """A new token changes no row, and a row that did not change since the start is not kept."""
    own, other = (live_query("runner_page", (f"runner:{key}",), worker=key) for key in ("a", "b"))
    store, _authorized, asker, _notified = setting({"events": []})
    held = [await asker.answer(query, ME) for query in (own, other)]
    store.notify("workers", "a")
    assert [each.is_old for each in held] == [True, False]
