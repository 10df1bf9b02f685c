"""The runner's enums are spelled as the database's are."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import psycopg
import pytest

from worker import enums


@pytest.mark.parametrize(
    ("sql", "python"),
    [
        ("worker_status", enums.WorkerStatus),
        ("job_type", enums.JobType),
        ("job_status", enums.JobStatus),
        ("job_phase", enums.JobPhase),
        ("cancel_kind", enums.CancelKind),
        ("engine", enums.EngineName),
        ("source_kind", enums.SourceKind),
    ],
)
def test_enums_are_equal(connect: Callable[..., psycopg.Connection[Any]], sql: str, python: type[StrEnum]) -> None:
    rows = connect("postgres").execute(
        "select e.enumlabel from pg_enum as e join pg_type as t on t.oid = e.enumtypid"
        " where t.typname = %s and t.typnamespace = 'public'::regnamespace order by e.enumsortorder",
        [sql],
    )
    assert [row[0] for row in rows] == [member.value for member in python]
