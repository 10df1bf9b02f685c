"""Who reads a module's outputs, as its page says it."""

from app.modules.view.grants import readers

GRANTS = [
    {"reader_id": "2", "created_at": "2026-11-15T14:00:00+00:00"},
    {"reader_id": "1", "created_at": "2026-11-15T15:00:00+00:00"},
    {"reader_id": "3", "created_at": None},
]


def test_readers_are_named_by_path() -> None:
    found = readers(GRANTS, [{"id": "1", "path": "apps/a"}, {"id": "2", "path": "apps/b"}, {"id": "3", "path": "z"}])
    assert [(each["id"], each["path"]) for each in found] == [("1", "apps/a"), ("2", "apps/b"), ("3", "z")]
    assert (found[0]["since"], found[2]["since"]) == ("2026-11-15T15:00:00+00:00", "")


def test_a_removed_module_reads_nothing() -> None:
    assert [each["path"] for each in readers(GRANTS, [{"id": "2", "path": "apps/b"}])] == ["apps/b"]
    assert readers([], []) == []
