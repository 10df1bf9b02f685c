"""The palette offers the actions permitted to this person, and the search results."""

from app.frame.palette import view


def texts(text: str, **other: bool) -> list[str]:
    rights = {"can_operate": True, "can_admin": True, "sees_all": True} | other
    return [item["text"] for item in view.actions(text, **rights)]


def test_only_permitted_actions_are_offered() -> None:
    assert "Add runner…" in texts("")
    assert "Add runner…" not in texts("", can_admin=False)
    assert "New job…" in texts("", can_admin=False)
    assert "New job…" not in texts("", can_operate=False, can_admin=False)
    assert "Go to figures" not in texts("", sees_all=False)


def test_an_action_is_found_by_any_of_its_words() -> None:
    assert texts("RUNNER add") == ["Add runner…"]
    assert texts("nothing like it") == []


def test_a_group_of_results_shows_how_many_there_are_in_all() -> None:
    rows = [{"id": "m", "path": "payments/db", "last_job": {"status": "NEEDS_ATTENTION"}}]
    (found,) = view.group("Modules", [view.module(row) for row in rows], 7)
    assert (found["said"], found["items"][0]["aside"]) == ("1 of 7", "Needs attention")
    assert found["items"][0]["status"] == "NEEDS_ATTENTION"
    assert view.group("Modules", [], 0) == []


def test_a_job_is_named_by_its_number_and_its_target() -> None:
    rows = [
        {"id": 1007, "number": 7, "type": "APPLY", "status": "QUEUED", "module_path": "payments/db"},
        {
            "id": 1008,
            "number": 8,
            "type": "UPDATE_WORKER",
            "status": "QUEUED",
            "module_path": None,
            "target_name": "prod-eu",
            "created_at": "2026-11-19T08:00:00Z",
            "finished_at": None,
        },
    ]
    assert [view.job(row)["text"] for row in rows] == [
        "#7 Apply, payments/db",
        "#8 Update runner, prod-eu",
    ]
    assert view.job(rows[1])["at"] == "2026-11-19T08:00:00Z"
    runner = view.runner({"id": "r", "name": "prod-eu", "status": "ONLINE", "used": 3, "slots": 4})
    assert runner["aside"] == "Online  3/4"


def test_a_verb_makes_a_command_of_a_module_or_a_runner() -> None:
    assert view.command("Plan payments/db") == ("plan", "payments/db")
    assert view.command("> drain eu") == ("drain", "eu")
    assert view.command("planning") == ("", "")
    assert view.command("cancel #7") == ("cancel", "7")
    row = {"id": 1007, "number": 7, "type": "APPLY", "status": "QUEUED", "module_path": "payments/db"}
    cancel = view.job_command("cancel", row)
    assert (cancel["text"], cancel["href"]) == ("Cancel #7 Apply, payments/db…", "/dashboard/jobs/7")
    plan = view.module_command("apply", {"id": "m", "path": "payments/db"})
    assert (plan["text"], plan["key"]) == ("Apply payments/db…", "apply:payments/db")
    assert plan["href"] == "/dashboard/modules?path=payments/db"
    drain = view.runner_command("drain", {"id": "r", "name": "prod-eu"})
    assert (drain["text"], drain["href"], drain["key"]) == ("Drain prod-eu…", "/dashboard/runners/r", "drain:r")


def test_theme_sign_out_and_settings_are_found_by_their_words() -> None:
    for typed, found in (("dark", "theme"), ("sign out", "sign-out"), ("token", "account"), ("audit", "audit")):
        assert f"action-{found}" in [
            item["id"] for item in view.actions(typed, can_operate=True, can_admin=True, sees_all=True)
        ]
    assert "Sign out" not in texts("")


def test_a_mistyped_name_finds_the_modules_that_are_most_like_it() -> None:
    rows = [{"id": name, "name": name, "path": f"payments/{name}"} for name in ("ledger", "queue")]
    assert [item["text"] for item in view.nearest("ledgre", rows)] == ["payments/ledger"]
    assert [item["text"] for item in view.nearest("payments/ledgr", rows)][:1] == ["payments/ledger"]
    assert view.nearest("xyz", rows) == []
