"""The states that may follow a stored state."""

import pytest

from worker.statebackend.backend import check_follows
from worker.statebackend.http import BadRequest


def test_a_state_without_a_lineage_is_followed_by_any() -> None:
    """A first apply that is killed leaves one behind; the applies after it inherit that."""
    rescued = '{"version": 4, "serial": 1, "lineage": ""}'
    check_follows('{"version": 4, "serial": 2, "lineage": ""}', rescued)
    check_follows('{"version": 4, "serial": 2, "lineage": "new"}', rescued)
    with pytest.raises(BadRequest, match="serial is 1"):
        check_follows('{"version": 4, "serial": 1, "lineage": ""}', '{"serial": 1, "lineage": "", "version": 4}')
