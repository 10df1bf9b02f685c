"""The access of a path: what was given here first, and no endless list of members."""

from typing import Any

from app.access.view import MOST_MEMBERS, build_roles, build_rows, build_subjects


def row(name: str, role: str, path: str = "", **more: Any) -> dict[str, Any]:
    return {"id": None, "kind": "member", "subject_id": name, "name": name, "role": role, "path": path, **more} | {
        "members": more.get("members", 0)
    }


def test_a_role_is_here_only_where_it_was_given() -> None:
    answer = [row("sre", "operator", "a/b", id="1", kind="team", members=1), row("c", "planner", "a", id="2")]
    rows, more = build_rows([*answer, row("o", "owner")], "a/b")
    assert [(each["name"], each["is_here"], each["about"]) for each in rows] == [
        ("sre", True, "Team, 1 member"),
        ("c", False, ""),
        ("o", False, ""),
    ]
    assert more == 0


def test_the_members_of_a_large_organisation_are_counted_those_with_most_rights_shown() -> None:
    viewers = [row(f"v{number}", "viewer") for number in range(MOST_MEMBERS)]
    rows, more = build_rows([*viewers, row("o", "owner"), row("g", "planner", "a", id="1")], "a")
    assert [each["name"] for each in rows[:2]] == ["g", "o"]
    assert (len(rows), more) == (MOST_MEMBERS + 1, 1)


def test_a_role_is_offered_in_one_sentence_and_no_owner_is() -> None:
    roles = [
        {"name": "owner", "description": "", "verbs": ["a", "b"], "is_own": False},
        {"name": "mine", "description": "", "verbs": ["job.plan", "job.apply"], "is_own": True},
        {"name": "operator", "description": "", "verbs": ["a", "b"], "is_own": False},
        {"name": "planner", "description": "", "verbs": ["a"], "is_own": False},
    ]
    offered = build_roles(roles)
    assert [each["name"] for each in offered] == ["planner", "operator", "mine"]
    assert offered[2]["words"] == "mine: job.plan, job.apply"


def test_somebody_is_named_as_on_the_command_line() -> None:
    found = build_subjects({"a@example.com": "1"}, [{"id": 2, "name": "sre"}], [{"id": 3, "name": "ci"}])
    assert found == {"a@example.com": ["member", "1"], "team:sre": ["team", "2"], "account:ci": ["account", "3"]}
