"""The operator's doctor reports transactions that stay open."""

import pytest

from cli.commands.doctor import TRANSACTION_SECONDS, _transactions
from cli.errors import CommandError

OPEN = {"pid": 42, "role": "postgres", "application": "psql", "state": "idle in transaction"}


def test_a_young_transaction_is_listed_without_a_finding() -> None:
    assert "process 42, idle in transaction" in _transactions([OPEN | {"seconds": 5}])
    assert _transactions([]) == "none is open"


def test_an_old_transaction_is_a_finding_with_its_remedy() -> None:
    with pytest.raises(CommandError, match=r"pg_terminate_backend\(42\)"):
        _transactions([OPEN | {"seconds": TRANSACTION_SECONDS + 1}])
