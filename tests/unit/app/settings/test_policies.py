"""The form of a policy set."""

from app.settings.state.policies import check_form
from wire.checks import read_command


def test_rules_that_are_written_here_become_one_file() -> None:
    checked = check_form({"name": " tags ", "text": "package main"}, "mandatory", "rules")
    assert checked.spec == {"name": "tags", "level": "mandatory", "files": {"policy.rego": "package main"}}
    assert not checked.errors


def test_rules_of_a_folder_are_kept() -> None:
    assert "files" not in check_form({"name": "tags"}, "advisory", "folder").spec


def test_set_needs_a_name_and_rules() -> None:
    assert sorted(check_form({"name": "", "text": " "}, "advisory", "rules").errors) == ["name", "text"]


def test_command_that_is_written_here_becomes_one_file() -> None:
    form = {"name": "scan", "command": "trivy config '{plan}'", "has_network": "on"}
    checked = check_form(form, "advisory", "command")
    assert read_command(checked.spec["files"]["command.json"]) == ("trivy config '{plan}'", True)
    offline = check_form({"name": "scan", "command": "true"}, "advisory", "command")
    assert read_command(offline.spec["files"]["command.json"]) == ("true", False)


def test_command_needs_words_and_ended_quotes() -> None:
    wrong = [check_form({"name": "scan", "command": line}, "advisory", "command").errors for line in (" ", "sh 'x")]
    assert wrong == [{"command": "Write a command."}, {"command": "A quote has no end."}]
