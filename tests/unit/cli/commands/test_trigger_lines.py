"""A trigger as a line of `runyard triggers`."""

from cli.commands.schedules import last_result
from cli.commands.triggers import COLUMNS, line


def test_a_line_shows_when_a_trigger_starts_jobs_and_its_last_result() -> None:
    last = {"verdict": "NOTHING", "reason": "Same content.", "received_at": "t", "job_number": None}
    push = {"kind": "push", "path": "net/vpc", "is_on": True, "branch": None, "apply": "never", "last": last}
    assert tuple(line(push)) == COLUMNS
    assert (line(push)["when"], line(push)["reason"]) == ("to the default branch", "Same content.")
    pull = line({**push, "kind": "pull_request", "branch": "main", "last": None})
    assert (pull["kind"], pull["when"], pull["last_result"]) == ("pull-request", "into main", None)
    run = {"status": "SUCCEEDED", "created_at": "t"}
    schedule = {"kind": "schedule", "path": "", "is_on": False, "words": "Daily", "zone": "UTC", "last_run": run}
    assert (line(schedule)["when"], line(schedule)["last_result"]) == ("Daily, UTC", "SUCCEEDED")


def test_both_lists_show_why_a_schedule_is_paused() -> None:
    run = {"status": "SUCCEEDED", "created_at": "t", "done": 1, "total": 1}
    row = {"kind": "schedule", "path": "", "is_on": False, "words": "Daily", "zone": "UTC", "last_run": run}
    words = "Paused: ann has no job.apply at net any more."
    assert (line({**row, "reason": words})["reason"], last_result({**row, "reason": words})) == (words, words)
    assert last_result(row) == "SUCCEEDED 1/1"
