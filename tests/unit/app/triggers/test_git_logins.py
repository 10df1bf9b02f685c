"""Logins at git providers: the page's content, and the members that it offers."""

import pytest

from app.triggers.state.git_logins import build_choices, build_login, check_login

ROW = {"host": "github.com", "login": "ann", "email": "ann@example.com", "user_id": "1", "created_by_label": "root"}


def test_a_login_names_its_member_and_how_it_was_linked() -> None:
    shown = build_login(ROW, "1")
    assert (shown["name"], shown["by"], shown["is_mine"]) == ("ann at github.com", "Linked by root", True)
    proved = build_login({**ROW, "created_by_label": "ann@example.com"}, "2")
    assert (proved["by"], proved["is_mine"]) == ("Proved by a comment", False)


def test_the_caller_proves_a_login_and_other_members_are_linked() -> None:
    members = [{"user_id": "1", "email": "a"}, {"user_id": "2", "email": "b"}]
    assert [one["id"] for one in build_choices(members, "1")] == ["me", "2"]


@pytest.mark.parametrize(
    ("host", "login", "wrong"), [("", "x", "host"), ("https://a/b", "x", "host"), ("h", "@", "login")]
)
def test_a_link_needs_a_host_and_a_login(host: str, login: str, wrong: str) -> None:
    assert list(check_login({"host": host, "login": login})[2]) == [wrong]
