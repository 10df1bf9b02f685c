"""The variables that a job was given, in words."""

from app.jobs.view.facts import build_given


def test_a_variable_names_its_source_its_version_and_later_changes() -> None:
    row = {"name": "size", "path": "a/b", "version": 2, "is_enforced": False, "is_sealed": False, "is_current": True}
    assert build_given(row) == {"name": "size", "source": "a/b, version 2", "note": ""}
    changed = build_given({**row, "path": "", "is_enforced": True, "is_sealed": True, "is_current": False})
    assert (changed["source"], changed["note"]) == ("the organisation, version 2", "enforced, sealed, changed since")
    of_run = build_given({**row, "path": None, "is_current": False})
    assert (of_run["source"], of_run["note"]) == ("given with the request", "")
