"""What belongs to a job's row: whether who requested it may approve it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.jobs.state import related
from app.project.models import Page, Query, Row

JOB = {"id": 7, "status": "AWAITING_APPROVAL", "approvals_required": 1, "created_by": "me"}


class Reader:
    """A page of one member, over an organisation with or without a second one."""

    def __init__(self, *, may_own: bool, others: list[Row]) -> None:
        self.answers = {"organizations": [{"can_approve_own_jobs": may_own}], "memberships": others}
        self.asked: dict[str, Query] = {}

    async def _who(self) -> Any:
        return SimpleNamespace(user_id="me", org_id="org")

    async def _select(self, table: str, query: Query) -> Page:
        self.asked[table] = query
        return Page(self.answers[table])


async def rule(job: Row, *, may_own: bool = False, others: list[Row] | None = None) -> str:
    return await related.read_own_rule(cast("Any", Reader(may_own=may_own, others=others or [])), job)


async def test_who_requested_a_job_waits_for_others_or_overrides_alone() -> None:
    assert await rule(JOB, others=[{"user_id": "you"}]) == "others"
    assert await rule(JOB) == "alone"
    assert await rule(JOB, may_own=True, others=[{"user_id": "you"}]) == ""


@pytest.mark.parametrize("change", [{"created_by": "you"}, {"approvals_required": 0}, {"status": "QUEUED"}])
async def test_nothing_keeps_from_approving_what_somebody_else_requested_or_what_asks_for_none(change: Row) -> None:
    assert await rule({**JOB, **change}, others=[{"user_id": "you"}]) == ""


async def test_only_members_who_may_approve_are_others() -> None:
    reader = Reader(may_own=False, others=[])
    await related.read_own_rule(cast("Any", reader), JOB)
    asked = {(found.column, found.operator): found.value for found in reader.asked["memberships"].filters}
    assert asked == {
        ("org_id", "eq"): "org",
        ("user_id", "neq"): "me",
        ("role", "in"): "(admin,operator,owner)",
    }
