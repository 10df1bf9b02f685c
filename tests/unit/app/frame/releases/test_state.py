"""The release notes dialog: it shows releases published or withdrawn while it is open."""

from typing import Any

from app.frame.releases.state import ReleaseNotesState, releases_of
from app.project.store import OrgStore


def release(version: str, **changes: Any) -> dict[str, Any]:
    row = {"id": version, "version": version, "channel": "stable", "published_at": "2026-11-01T10:00:00+00:00"}
    return {**row, "notes": f"What {version} brings", "withdrawn_at": None, **changes}


def opened(store: OrgStore, version: str = "") -> ReleaseNotesState:
    dialog = ReleaseNotesState(_reflex_internal_init=True)
    dialog._tell(releases_of(store), version)
    dialog.is_open = True
    return dialog


def filled(*versions: str) -> OrgStore:
    store = OrgStore("org")
    store.replace("worker_releases", [release(version) for version in versions])
    store.is_loaded = True
    return store


def test_a_new_release_is_added_to_the_list_and_the_open_one_stays_open() -> None:
    store = filled("1.8.0", "1.9.0")
    dialog = opened(store)
    assert dialog.chosen["version"] == "1.9.0"
    store.put("worker_releases", release("1.10.0"))
    dialog._watch(store)
    assert [item["version"] for item in dialog.releases] == ["1.10.0", "1.9.0", "1.8.0"]
    assert dialog.chosen["version"] == "1.9.0"
    assert not dialog.chosen["is_latest"]


def test_notes_that_are_withdrawn_give_way_to_the_newest() -> None:
    store = filled("1.8.0", "1.9.0")
    dialog = opened(store)
    store.put("worker_releases", release("1.9.0", withdrawn_at="2026-11-02T10:00:00+00:00"))
    dialog._watch(store)
    assert dialog.chosen["version"] == "1.8.0"
    assert dialog.is_open


def test_the_dialog_closes_when_nothing_is_left_to_read() -> None:
    store = filled("1.9.0")
    dialog = opened(store)
    store.drop("worker_releases", "1.9.0")
    dialog._watch(store)
    assert not dialog.is_open


def test_a_closed_dialog_receives_nothing() -> None:
    store = filled("1.9.0")
    dialog = ReleaseNotesState(_reflex_internal_init=True)
    dialog._watch(store)
    assert dialog.releases == []
