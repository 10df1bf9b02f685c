"""The texts that pages of triggers show for rows, and the input that their forms refuse."""

from app.triggers.state import updates
from app.triggers.view import notifications, schedules, sets, triggers

SET = {
    "id": "s", "type": "PLAN", "status": "RUNNING", "total": 120, "done": 37, "failed": 2, "succeeded": 35, "running": 6, "waiting": 77,
    "with_changes": 11, "seconds_left": 660, "created_by_label": "ops@example.com",
    "failures": [{"job_id": 9, "job_number": 5131, "module_path": "payments/api", "status": "FAILED", "message": "no"}],
}  # fmt: skip


def test_a_set_shows_its_progress_and_the_effect_of_cancelling() -> None:
    view = sets.build_view(SET)
    assert (view["title"], view["line"], view["left"]) == ("Plan all", "37 of 120 done, 2 failed", "about 11 min left")
    assert view["foot"] == "11 plans have changes. Cancel the rest stops the 77 that wait; the 6 running finish."
    assert view["changes_href"] == "/dashboard/jobs?changed=s"
    assert sets.build_view({**SET, "running": 0})["foot"].endswith("Cancel the rest stops the 77 that wait.")
    assert sets.build_view({**SET, "waiting": 0})["foot"] == "11 plans have changes."
    assert sets.build_view({**SET, "with_changes": 1})["foot"].startswith("1 plan has changes.")
    assert sets.build_view({**SET, "with_changes": 0})["changes_href"] == ""
    assert (view["succeeded"], view["can_retry"], view["is_running"]) == ("29.2%", True, True)
    assert view["failures"][0] == {
        "job": "#5131",
        "href": "/dashboard/jobs/5131",
        "path": "payments/api",
        "message": "no",
    }


def test_a_set_without_modules_or_numbers_is_shown_all_the_same() -> None:
    view = sets.build_view({"status": "SUCCEEDED", "failures": [{"module_path": "a/b", "message": "gone"}]})
    assert (view["line"], view["succeeded"], view["failures"][0]["href"]) == ("0 of 0 done", "0.0%", "")


def test_a_schedules_last_run_shows_drift_that_it_found() -> None:
    run = {"status": "SUCCEEDED", "with_changes": 2}
    view = schedules.build_view({"id": "x", "type": "DRIFT", "path": "", "is_on": False, "last_run": run})
    assert (view["last"], view["where"], view["next"]) == ("DRIFT", "all modules", "off")
    assert schedules.build_view({"type": "PLAN", "last_run": run})["last"] == "SUCCEEDED"


def test_a_trigger_shows_the_result_of_its_last_event() -> None:
    last = {"id": 9, "connection_id": "c", "verdict": "PLANNED", "reason": "Its folders changed.", "job_number": 12}
    row = {"id": "push:m", "kind": "push", "path": "net/vpc", "repository": "h/r", "apply": "never", "folder": "vpc"}
    view = triggers.build_view({**row, "last": {**last, "after_commit": "a" * 40}})
    assert (view["words"], view["detail"], view["applies"]) == (
        "Push to the default branch",
        "h/r: vpc",
        "Applied: never",
    )
    assert (view["event"], view["event_href"]) == ("aaaaaaa", f"/dashboard/changes/c/{'a' * 40}")
    assert (view["job"], view["job_href"], view["last_note"]) == ("#12", "/dashboard/jobs/12", "")
    assert view["why_href"] == "/dashboard/settings/git?delivery=9"
    pull = {**last, "verdict": "NOTHING", "job_number": None, "pull_request": 7}
    view = triggers.build_view({**row, "kind": "pull_request", "branch": "main", "last": pull, "error": "no route"})
    assert (view["words"], view["event_href"], view["job"]) == ("Pull request into main", "/dashboard/changes/c/7", "")
    assert (view["last_note"], view["problem"]) == ("Its folders changed.", "The repository cannot be read: no route")
    assert triggers.build_view(row)["last_note"] == "None yet"


def test_a_schedule_among_the_triggers_shows_its_next_time_and_its_last_run() -> None:
    row = {"kind": "schedule", "id": "s", "type": "PLAN", "path": "", "zone": "UTC", "next_local": "Thu 19 Nov, 02:00"}
    view = triggers.build_view(row)
    assert (view["detail"], view["last_note"]) == ("UTC, next Thu 19 Nov, 02:00", "Not run yet")
    run = {"status": "FAILED", "total": 3, "created_at": "2026-11-18T02:00:00+00:00"}
    view = triggers.build_view({**row, "last_run": run, "is_on": False, "reason": "Freeze"})
    assert (view["detail"], view["problem"], view["event"], view["last"]) == (
        "UTC, off",
        "Freeze",
        "3 modules",
        "FAILED",
    )
    assert triggers.build_view({**row, "last_run": run, "job_number": 5})["job"] == "#5"


def test_a_schedules_form_requires_type_time_and_zone() -> None:
    wrong = schedules.check_form({"type": "DANCE", "cron": " ", "zone": 3})
    assert set(wrong.errors) == {"type", "cron", "zone"}
    good = schedules.check_form({"type": "PLAN", "cron": "0 2 * * *", "zone": "UTC", "path": "/a/b/"})
    assert (good.errors, good.spec["path"]) == ({}, "a/b")


def test_a_delivery_shows_status_attempt_and_action() -> None:
    row = {"id": 1, "status": "PENDING", "note": "503", "attempt": 2, "channel": "teams"}
    view = notifications.build_delivery(row, 10)
    assert (view["status"], view["why"], view["act"]) == ("RETRYING", "503, attempt 2 of 10", "Retry now")
    given_up = notifications.build_delivery({**row, "status": "FAILED", "attempt": 10}, 10)
    assert (given_up["why"], given_up["act"]) == ("503, given up after 10 attempts", "Send again")
    assert notifications.build_delivery({"id": 2, "status": "PENDING"}, 10)["status"] == "PENDING"
    report = notifications.build_delivery({"id": 3, "status": "DELIVERED", "channel": "git"}, 10)
    assert report["channel"] == "Repository"


def test_a_rules_form_keeps_address_and_secret_out_of_the_spec() -> None:
    form = {"address": "https://hooks.example.org/x", "secret": "12345678", "path": "a"}
    checked = notifications.check_form(form, "webhook", ["job.failed"], is_new=True)
    assert checked.errors == {}
    assert checked.spec == {"path": "a", "events": ["job.failed"], "channel": "webhook"}
    wrong = notifications.check_form({"secret": "short"}, "webhook", [], is_new=True)
    assert set(wrong.errors) == {"address", "events", "secret"}
    assert notifications.check_form({}, "webhook", ["job.failed"], is_new=False).errors == {}


def test_the_policys_form_wants_a_window_with_two_ends() -> None:
    assert updates.check_form({}, "NOW", []).spec == {"mode": "NOW"}
    wrong = updates.check_form({"begins_at": "25:00", "ends_at": "2"}, "WINDOW", [])
    assert set(wrong.errors) == {"begins_at", "ends_at", "days"}
    good = updates.check_form(
        {"begins_at": "22:00", "ends_at": "04:00", "zone": ""}, "WINDOW", ["Saturday", "Nonsense"]
    )
    assert (good.errors, good.spec["days"], good.spec["zone"]) == ({}, [6], "UTC")


def test_the_policys_hint_describes_the_next_update() -> None:
    assert updates.hint_of({"mode": "NOW", "outdated": 3, "version": "1.8.2"}) == "3 runners will update to 1.8.2."
    assert updates.hint_of({"mode": "OFF", "outdated": 3}) == "3 runners are outdated."
    assert updates.hint_of({"mode": "WINDOW"}).startswith("No outdated runners")
