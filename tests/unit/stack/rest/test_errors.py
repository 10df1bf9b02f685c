"""SQLSTATE to status, and answers that a function forms itself."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from stack.rest.errors import from_database
from stack.rest.pool import DatabaseError


def error(code: str, message: str = "m", details: str | None = None) -> DatabaseError:
    made = DatabaseError.__new__(DatabaseError)
    cast("Any", made).__dict__.update(SimpleNamespace(code=code, message=message, details=details, hint=None).__dict__)
    return made


@pytest.mark.parametrize(
    ("code", "message", "status"),
    [
        ("22023", 'role "x" does not exist', 401), ("22023", "other", 400),
        ("21000", "other", 500), ("57P01", "bye", 503), ("PT999", "x", 500), ("PTabc", "x", 500), ("PT404", "x", 404),
        ("09000", "x", 500), ("25001", "x", 500), ("2D000", "x", 500), ("39000", "x", 500), ("3B000", "x", 500),
        ("55P03", "x", 500), ("F0000", "x", 500), ("HV000", "x", 500), ("08006", "x", 503), ("RY401", "x", 400),
    ],
)  # fmt: skip
def test_each_sqlstate_has_its_status(code: str, message: str, status: int) -> None:
    assert from_database(error(code, message), is_anonymous=False).status == status


def test_rights_depend_on_whether_one_is_signed_in() -> None:
    assert from_database(error("42501"), is_anonymous=True).status == 401
    assert from_database(error("42501"), is_anonymous=False).status == 403


@pytest.mark.parametrize(
    ("message", "details"),
    [
        ("nonsense", "{}"),
        ("{}", "{}"),
        ('{"code":"1","message":"x"}', None),
        ('{"code":"1","message":"x"}', "[]"),
        ("[]", "[]"),
    ],
)
def test_a_malformed_own_answer_is_reported_with_details_and_a_hint(message: str, details: str | None) -> None:
    found = from_database(error("PGRST", message, details), is_anonymous=True)
    assert (found.status, found.code) == (500, "PGRST121")
    assert found.details
    assert found.hint
