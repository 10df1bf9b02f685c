"""A job's page: what belongs to the row is read for the row that is shown."""

import pytest

from app.jobs.state.job import JobState, _mark_of
from app.project.errors import Unreachable
from app.project.store import AGAIN, Changed, OrgStore

JOB = {
    "id": 7,
    "number": 3,
    "type": "PLAN",
    "status": "PROCESSING",
    "attempt": 1,
    "created_at": "2026-11-15T14:00:00+00:00",
    "updated_at": "2026-11-15T14:00:00+00:00",
}
ENDED = {**JOB, "status": "SUCCEEDED", "updated_at": "2026-11-15T14:00:09+00:00"}
MINE = Changed({"provision_jobs": frozenset({"7"})})


async def test_the_last_event_is_read_even_when_the_first_try_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    state = JobState(_reflex_internal_init=True)
    state._job, state.is_found = dict(JOB), True
    reads: list[str] = []

    async def read(self: JobState) -> None:
        reads.append(str(self._job["status"]))
        if len(reads) == 1:
            raise Unreachable
        self._events = [{"id": 1, "event": "succeeded", "at": ENDED["updated_at"]}]

    async def heavy(self: JobState) -> None:
        """Nothing more to read here."""

    monkeypatch.setattr(JobState, "_read_events", read)
    monkeypatch.setattr(JobState, "_read_heavy", heavy)
    store = OrgStore("org")
    store.put("provision_jobs", ENDED)
    with pytest.raises(Unreachable):
        await state._renew(store, MINE)
    await state._renew(store, Changed({"provision_jobs": frozenset({"7"})}))
    assert [event["words"] for event in state.events] == ["Succeeded"]
    await state._renew(store, MINE)
    assert reads == ["SUCCEEDED", "SUCCEEDED"]


async def test_a_row_whose_change_nobody_heard_of_is_read_again_with_the_channel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = JobState(_reflex_internal_init=True)
    state._job, state.is_found = dict(JOB), True

    async def read(self: JobState) -> bool:
        self._job = {**self._job, **ENDED}
        return True

    async def nothing(self: JobState) -> None:
        """Nothing more to read here."""

    monkeypatch.setattr(JobState, "_read_job", read)
    for name in ("_read_events", "_read_heavy", "_watch_lease", "_ask_why"):
        monkeypatch.setattr(JobState, name, nothing)
    await state._show(OrgStore("org"), Changed({AGAIN: frozenset()}))
    assert state.view["status"] == "SUCCEEDED"


async def test_what_nobody_told_of_before_the_channel_was_joined_is_read_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The row is as it was; who else may approve it is not."""
    state = JobState(_reflex_internal_init=True)
    state._job, state.is_found = dict(JOB), True
    state._read_for = _mark_of(state._job)
    read: list[bool] = []

    async def is_there(self: JobState) -> bool:
        return True

    async def note(self: JobState) -> None:
        read.append(True)

    async def nothing(self: JobState) -> None:
        """Nothing more to read here."""

    monkeypatch.setattr(JobState, "_read_job", is_there)
    monkeypatch.setattr(JobState, "_read_events", note)
    for name in ("_read_heavy", "_watch_lease", "_ask_why"):
        monkeypatch.setattr(JobState, name, nothing)
    await state._show(OrgStore("org"), Changed({AGAIN: frozenset()}))
    assert read == [True]
