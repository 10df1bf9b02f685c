"""The live store: newer rows win, listeners learn of each change, snapshots replace."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.project.store import EVERYTHING, MAX_CHANGES, Changed, Link, OrgStore


def row(row_id: str, second: int, **changes: Any) -> dict[str, Any]:
    return {"id": row_id, "status": "ONLINE", "updated_at": f"2026-11-15T10:00:{second:02d}+00:00", **changes}


def loaded(*rows: dict[str, Any]) -> tuple[OrgStore, list[tuple[str, str]]]:
    store = OrgStore("org")
    for one in rows:
        store.put("workers", one)
    store.is_loaded = True
    heard: list[tuple[str, str]] = []
    store.listen(lambda table, row_id: heard.append((table, row_id)))
    return store, heard


def test_an_older_event_never_overwrites_a_newer_row() -> None:
    store, heard = loaded(row("a", 5, status="OFFLINE"))
    assert not store.put("workers", row("a", 4))
    assert store.row("workers", "a") == row("a", 5, status="OFFLINE")
    assert heard == []


def test_a_change_notifies_once_and_the_same_row_again_does_not() -> None:
    store, heard = loaded(row("a", 5))
    store.put("workers", row("a", 6, status="OFFLINE"))
    store.put("workers", row("a", 6, status="OFFLINE"))
    assert heard == [("workers", "a")]


def test_columns_that_a_change_lacks_are_kept() -> None:
    store, _ = loaded(row("a", 5, name="prod-eu"))
    store.put("workers", row("a", 6, status="OFFLINE"))
    assert store.row("workers", "a") == row("a", 6, status="OFFLINE", name="prod-eu")


def test_a_snapshot_drops_removed_rows() -> None:
    store, heard = loaded()
    store.replace("rollouts", [row("a", 5), row("b", 5)])
    heard.clear()
    store.replace("rollouts", [row("b", 5)])
    assert [held["id"] for held in store.rows("rollouts")] == ["b"]
    assert heard == [("rollouts", "a")]


def test_a_partly_loaded_table_cannot_be_listed() -> None:
    with pytest.raises(KeyError, match="ask for what you show"):
        loaded(row("a", 5))[0].rows("workers")


def test_the_first_snapshot_is_not_news() -> None:
    store = OrgStore("org")
    heard: list[str] = []
    store.listen(lambda _table, row_id: heard.append(row_id))
    store.replace("rollouts", [row("a", 5)])
    assert heard == []
    assert store.row("rollouts", "a") is not None


def test_listening_can_be_stopped() -> None:
    store, heard = loaded()
    stop = store.listen(lambda _table, row_id: heard.append(("second", row_id)))
    stop()
    store.put("workers", row("a", 1))
    assert heard == [("workers", "a")]


def test_listeners_learn_of_each_change_of_the_link() -> None:
    store, heard = loaded()
    store.set_link(Link.LIVE)
    store.set_link(Link.LIVE)
    store.set_link(Link.OFFLINE, "The database did not answer.")
    assert heard == [("link", ""), ("link", "")]


def test_only_the_most_recent_changes_are_kept() -> None:
    store, heard = loaded()
    for number in range(MAX_CHANGES + 5):
        store.put("provision_jobs", row(str(number), 0))
    store.put("provision_jobs", row("5", 1))
    store.put("provision_jobs", row("new", 0))
    assert len(store.tables["provision_jobs"]) == MAX_CHANGES
    assert store.row("provision_jobs", "0") is None
    assert store.row("provision_jobs", "5") is not None, "changed again, so it is new again"
    store.drop("provision_jobs", "0")
    assert heard[-1] == ("provision_jobs", "0"), "a removed row is announced, held or not"


def test_counts_notify_only_when_they_change() -> None:
    store, heard = loaded()
    for used in (1, 2, 2):
        store.set_overview({"counts": {"workers": {"total": 3}, "jobs": {"QUEUED": 1}, "used": used}})
    assert [topic for topic, _ in heard] == ["counts", "slots", "overview", "slots", "overview", "overview"]
    assert store.counts("jobs") == {"QUEUED": 1}


def test_a_database_that_nothing_sweeps_is_noticed_after_its_first_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    store, heard = loaded()
    hand = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("app.project.store.time", SimpleNamespace(monotonic=lambda: hand.now))
    seen = []
    for now, seconds_ago in ((1000, None), (1059, None), (1060, None), (1070, 3), (1080, 121), (1140, 181), (1150, 2)):
        hand.now = float(now)
        store.set_overview({"swept_seconds_ago": seconds_ago})
        seen.append(store.is_unswept)
    assert seen == [False, False, True, False, False, True, False]
    assert [topic for topic, _ in heard].count("link") == 4


def test_changed_touches_the_topics_it_names() -> None:
    changed = Changed({"workers": frozenset({"a"})})
    assert changed.touches({"workers", "overview"})
    assert not changed.touches({"provision_jobs"})
    assert EVERYTHING.touches(set())
    assert changed.ids("provision_jobs") == frozenset()


def counts_again(table: str, **columns: Any) -> tuple[bool, bool]:
    """Whether the overview and the facets are wanted again after a change of these columns of a row that was known."""
    store = OrgStore("org")
    store.put(table, row("a", 5, approvals_received=0, reason="asleep"))
    store.counts_old.clear()
    store.are_facets_old = False
    store.put(table, {**row("a", 6), **columns})
    return store.counts_old.is_set(), store.are_facets_old


def test_numbers_are_old_only_after_what_they_count() -> None:
    assert counts_again("workers", status_reason="No heartbeat for 60 s.") == (False, True)
    assert counts_again("workers", status="OFFLINE") == (True, True)
    assert counts_again("workers", removed_at="2026-11-15T10:00:06+00:00") == (True, True)
    assert counts_again("provision_jobs", steps=[{"name": "plan"}]) == (False, False)
    assert counts_again("provision_jobs", approvals_received=1) == (True, False)
    assert counts_again("worker_instances", engine_note="no engine") == (False, True)
    for act in (
        lambda store: store.put("workers", row("a", 5)),
        lambda store: store.drop("workers", "a"),
        lambda store: store.notify("modules", "m"),
    ):
        store = OrgStore("org")
        act(store)
        assert store.counts_old.is_set()
