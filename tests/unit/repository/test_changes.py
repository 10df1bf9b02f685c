"""`make check` runs the tests that belong to changed files."""

from tests.support.changes import quick_tests


def test_a_changed_source_brings_the_tests_that_mirror_it() -> None:
    changed = {"worker/logs/spool.py", "supabase/schemas/claim.sql", "tests/db/test_claim.py", "README.md"}
    assert quick_tests(changed) == ["tests/db/test_claim.py", "tests/db/test_schemas.py", "tests/unit/worker/logs"]
