"""The form of a policy set."""

from app.settings.state.policies import check_form


def test_rules_that_are_written_here_become_one_file() -> None:
    checked = check_form({"name": " tags ", "text": "package main"}, "mandatory", has_text=True)
    assert checked.spec == {"name": "tags", "level": "mandatory", "files": {"policy.rego": "package main"}}
    assert not checked.errors


def test_rules_of_a_folder_are_kept() -> None:
    assert "files" not in check_form({"name": "tags"}, "advisory", has_text=False).spec


def test_set_needs_a_name_and_rules() -> None:
    assert sorted(check_form({"name": "", "text": " "}, "advisory", has_text=True).errors) == ["name", "text"]
