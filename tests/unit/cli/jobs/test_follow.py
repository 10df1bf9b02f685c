"""Following a job, with a project that is made up: its output, its waiting, and its end without a result."""

import io
from dataclasses import dataclass, field
from typing import Any

import pytest

from cli.errors import NoAnswer
from cli.jobs.follow import PATIENCE_SECONDS, Follower, describe, log_days, shown
from cli.jobs.plan import plan_lines

JOB: dict[str, Any] = {
    "id": 1007, "number": 7,
    "status": "QUEUED", "attempt": 0, "worker_name": None, "error": None, "plan_summary": None, "approvals_required": 0,
    "approvals_received": 0, "created_at": "2026-11-01T23:59:59+00:00", "log_day": "2026-11-02",
}  # fmt: skip


@dataclass
class Project:
    """Answers with one row after the other; the log has a chunk for each attempt and place."""

    rows_of_job: list[dict[str, Any] | NoAnswer]
    log: list[tuple[int, int, str]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    seconds: float = 0
    explained: int = 0
    days: list[str] = field(default_factory=list)

    def rows(self, table: str, **filters: str) -> list[dict[str, Any]]:
        if table == "provision_jobs":
            answer = self.rows_of_job.pop(0) if len(self.rows_of_job) > 1 else self.rows_of_job[0]
            if isinstance(answer, NoAnswer):
                raise answer
            return [answer]
        attempt, after = int(filters["attempt"][3:]), int(filters["seq"][3:])
        self.days.append(filters["and"])
        return [
            {"seq": seq, "step": "", "body": text} for each, seq, text in self.log if each == attempt and seq > after
        ]

    def call(self, name: str, **_: Any) -> dict[str, Any]:
        assert name == "explain_queue"
        self.explained += 1
        return {"summary": "No runner is online."}

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds

    def follow(self, **more: Any) -> dict[str, Any]:
        return Follower(self, 7, sleep=self.sleep, clock=lambda: self.seconds, **more).until_end()  # type: ignore[arg-type]


def row(**changes: Any) -> dict[str, Any]:
    return {**JOB, **changes}


def test_the_log_is_printed_once_and_an_attempt_s_log_starts_anew(capsys: pytest.CaptureFixture[str]) -> None:
    running = row(status="PROCESSING", attempt=1, worker_name="one")
    again = row(status="PROCESSING", attempt=2, worker_name="two")
    log = [(1, 1, "first\n"), (2, 1, "second\n"), (2, 2, "third\n")]
    project = Project([row(), running, running, again, row(status="SUCCEEDED", attempt=2)], log)
    assert project.follow()["status"] == "SUCCEEDED"
    printed = capsys.readouterr()
    assert printed.out == "first\nsecond\nthird\n"
    said = ["queued. No runner is online.", "running on one", "running on two", "succeeded"]
    assert printed.err.splitlines() == [f"job 7: {each}" for each in said]


def test_reads_of_a_log_name_its_days() -> None:
    project = Project([row(status="SUCCEEDED", attempt=2)], [(2, 1, "line\n")])
    project.follow()
    assert project.days == ["(log_day.gte.2026-11-02,log_day.lte.2026-11-02)"]
    assert log_days(row(attempt=2), attempt=1) == "(log_day.gte.2026-11-01,log_day.lte.2026-11-02)"
    never_claimed = Project([row(status="CANCELLED", log_day=None)])
    never_claimed.follow()
    assert never_claimed.days == []


def test_a_program_gets_the_log_beside_its_document(capsys: pytest.CaptureFixture[str]) -> None:
    Project([row(status="SUCCEEDED", attempt=1)], [(1, 1, "line\n")]).follow(is_for_program=True)
    assert capsys.readouterr().out == ""


def test_an_unchanged_job_is_requested_less_and_less_often() -> None:
    project = Project([row()] * 12 + [row(status="CANCELLED")])
    project.follow()
    assert project.slept == sorted(project.slept)
    assert max(project.slept) <= 2
    assert project.explained <= 1 + project.seconds / 10


def test_an_unreachable_project_is_waited_for_and_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    away = NoAnswer("http://p does not answer")
    Project([row(), away, away, row(status="SUCCEEDED", attempt=1)], [(1, 1, "line\n")]).follow()
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("trying again")) == ("line\n", 1)


def test_patience_has_an_end() -> None:
    project = Project([NoAnswer("http://p does not answer")])
    with pytest.raises(NoAnswer):
        project.follow()
    assert project.seconds > PATIENCE_SECONDS


def test_a_terminal_without_colours_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    for variables, is_plain in (({"NO_COLOR": "1"}, True), ({}, False)):
        screen = Screen()
        monkeypatch.setattr("sys.stderr", screen)
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        Project([row(), row(status="SUCCEEDED")]).follow()
        assert ("\x1b" not in screen.getvalue()) is is_plain


def test_a_jobs_end_is_described() -> None:
    failed = row(status="FAILED", error={"message": "Init failed.", "hint": "Check the provider."})
    assert describe(failed) == "failed\n  Init failed.\n  Check the provider."
    summary = {"create": 1, "delete": 2, "resources": [{"address": "a.b", "action": "create"}], "has_changes": True}
    assert describe(row(status="SUCCEEDED", plan_summary=summary)) == "succeeded: 1 to create, 2 to destroy"
    assert plan_lines(summary) == ["  + a.b", "Plan: 1 to create, 2 to destroy."]
    assert describe(row(status="AWAITING_APPROVAL", approvals_required=2, approvals_received=1)) == (
        "waits for approval (1 of 2)"
    )


@pytest.mark.parametrize(
    ("written", "coloured", "plain"),
    [
        ("\x1b[1mPlan:\x1b[0m 1", "\x1b[1mPlan:\x1b[0m 1", "Plan: 1"),
        ("a\tb\r\n", "a\tb\r\n", "a\tb\r\n"),
        ("\x1b]0;title\x07x", "x", "x"),
        ("\x1b]52;c;cm0gLXJm\x1b\\x", "x", "x"),
        ("\x1b[2J\x1b[1;1Hgone", "gone", "gone"),
        ("\x1bc\x07\x00x\x9b31m", "x", "x"),
        ("Grüße … ±", "Grüße … ±", "Grüße … ±"),
    ],
)
def test_a_log_may_colour_the_terminal_but_not_control_it(written: str, coloured: str, plain: str) -> None:
    assert shown(written, True) == coloured
    assert shown(written, False) == plain
