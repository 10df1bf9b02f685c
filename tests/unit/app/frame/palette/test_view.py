"""What the palette offers: what this person may do, and what was found."""

from app.frame.palette import view


def texts(text: str, *, can_operate: bool = True, can_admin: bool = True) -> list[str]:
    return [item["text"] for item in view.actions(text, can_operate=can_operate, can_admin=can_admin)]


def test_actions_are_those_that_this_person_may_take() -> None:
    assert "Add runner…" in texts("")
    assert "Add runner…" not in texts("", can_admin=False)
    assert "New job…" in texts("", can_admin=False)
    assert "New job…" not in texts("", can_operate=False, can_admin=False)


def test_an_action_is_found_by_any_of_its_words() -> None:
    assert texts("RUNNER add") == ["Add runner…"]
    assert texts("nothing like it") == []


def test_what_was_found_says_how_much_more_there_is() -> None:
    rows = [{"id": "m", "path": "payments/db", "last_job": {"status": "NEEDS_ATTENTION"}}]
    (found,) = view.group("Modules", [view.module(row) for row in rows], 7)
    assert (found["said"], found["items"][0]["aside"]) == ("1 of 7", "Needs attention")
    assert view.group("Modules", [], 0) == []


def test_a_job_is_named_by_its_number_and_what_it_acts_on() -> None:
    rows = [
        {"id": 7, "type": "APPLY", "status": "QUEUED", "module_path": "payments/db"},
        {"id": 8, "type": "UPDATE_WORKER", "status": "QUEUED", "module_path": None, "target_name": "prod-eu"},
    ]
    assert [view.job(row)["text"] for row in rows] == [
        "#7 Apply, payments/db",
        "#8 Update runner, prod-eu",
    ]
    runner = view.runner({"id": "r", "name": "prod-eu", "status": "ONLINE", "used": 3, "slots": 4})
    assert runner["aside"] == "Online  3/4"
