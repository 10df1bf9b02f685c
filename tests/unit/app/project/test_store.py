"""The live store: newer rows win, listeners hear of each change, snapshots replace."""

from typing import Any

from app.project.store import EVERYTHING, MAX_JOBS, Changed, Link, OrgStore


def row(row_id: str, second: int, **changes: Any) -> dict[str, Any]:
    return {"id": row_id, "status": "ONLINE", "updated_at": f"2026-11-15T10:00:{second:02d}+00:00", **changes}


def loaded(*rows: dict[str, Any]) -> tuple[OrgStore, list[tuple[str, str]]]:
    store = OrgStore("org")
    store.replace("workers", rows)
    store.is_loaded = True
    heard: list[tuple[str, str]] = []
    store.listen(lambda table, row_id: heard.append((table, row_id)))
    return store, heard


def test_an_older_event_never_overwrites_a_newer_row() -> None:
    store, heard = loaded(row("a", 5, status="OFFLINE"))
    assert not store.put("workers", row("a", 4))
    assert store.row("workers", "a") == row("a", 5, status="OFFLINE")
    assert heard == []


def test_a_change_is_told_once_and_the_same_row_again_is_not_news() -> None:
    store, heard = loaded(row("a", 5))
    store.put("workers", row("a", 6, status="OFFLINE"))
    store.put("workers", row("a", 6, status="OFFLINE"))
    assert heard == [("workers", "a")]


def test_columns_that_a_change_lacks_are_kept() -> None:
    store, _ = loaded(row("a", 5, name="prod-eu"))
    store.put("workers", row("a", 6, status="OFFLINE"))
    assert store.row("workers", "a") == row("a", 6, status="OFFLINE", name="prod-eu")


def test_a_snapshot_drops_what_is_gone() -> None:
    store, heard = loaded(row("a", 5), row("b", 5))
    store.replace("workers", [row("b", 5)])
    assert [held["id"] for held in store.rows("workers")] == ["b"]
    assert heard == [("workers", "a")]


def test_removed_runners_leave() -> None:
    store, _ = loaded(row("a", 5))
    store.put("workers", row("a", 6, removed_at="2026-11-15T10:00:06+00:00"))
    assert store.rows("workers") == []


def test_the_first_snapshot_is_not_news() -> None:
    store = OrgStore("org")
    heard: list[str] = []
    store.listen(lambda _table, row_id: heard.append(row_id))
    store.replace("workers", [row("a", 5)])
    assert heard == []
    assert store.row("workers", "a") is not None


def test_listening_can_be_stopped() -> None:
    store, heard = loaded()
    stop = store.listen(lambda _table, row_id: heard.append(("second", row_id)))
    stop()
    store.put("workers", row("a", 1))
    assert heard == [("workers", "a")]


def test_the_link_is_told_when_it_changes() -> None:
    store, heard = loaded()
    store.set_link(Link.LIVE)
    store.set_link(Link.LIVE)
    store.set_link(Link.OFFLINE, "The database did not answer.")
    assert heard == [("link", ""), ("link", "")]


def test_finished_jobs_leave_before_unfinished_ones() -> None:
    store, _ = loaded()
    store.put("provision_jobs", row("1", 0, status="QUEUED"))
    for number in range(2, MAX_JOBS + 5):
        store.put("provision_jobs", row(str(number), 0, status="SUCCEEDED"))
    assert len(store.rows("provision_jobs")) == MAX_JOBS
    assert store.row("provision_jobs", "1") is not None
    assert store.row("provision_jobs", "2") is None


def test_changed_touches_the_topics_it_names() -> None:
    changed = Changed({"workers": frozenset({"a"})})
    assert changed.touches({"workers", "overview"})
    assert not changed.touches({"provision_jobs"})
    assert EVERYTHING.touches(set())
    assert changed.ids("provision_jobs") == frozenset()
