"""The folder of a policy set: which files are read, and where they came from."""

import subprocess
from pathlib import Path

import pytest

from cli.commands.policies import read_files, read_set, report_lines, source_of
from cli.errors import Usage
from wire.checks import read_command


def test_rules_and_data_of_a_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "aws").mkdir()
    (tmp_path / "aws" / "tags.rego").write_text("package main")
    (tmp_path / "data.json").write_text("{}")
    (tmp_path / "README.md").write_text("no")
    (tmp_path / "link.rego").symlink_to("/etc/hostname")
    assert read_files(tmp_path) == {"aws/tags.rego": "package main", "data.json": "{}"}
    assert read_files(tmp_path / "aws" / "tags.rego") == {"tags.rego": "package main"}


def test_folder_without_rules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Usage, match=r"has no \.rego file and no command\.json"):
        read_files(tmp_path)


def test_command_is_a_set_alone_or_with_its_folder(tmp_path: Path) -> None:
    line = "sh check.sh '{plan}'"
    alone = read_set(None, line)
    assert read_command(alone["command.json"]) == (line, False)
    (tmp_path / "check.sh").write_text("true")
    (tmp_path / "ignore.csv").write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("x")
    both = read_set(tmp_path, line, has_network=True)
    assert (sorted(both), read_command(both["command.json"])) == (
        ["check.sh", "command.json", "ignore.csv"],
        (line, True),
    )
    (tmp_path / "command.json").write_text(alone["command.json"])
    assert read_set(tmp_path, None) == {**both, **alone}


def test_set_that_is_neither_folder_nor_command_is_refused(tmp_path: Path) -> None:
    for folder, line, network in ((None, None, False), (tmp_path, None, True), (None, "sh 'x", False)):
        with pytest.raises(Usage):
            read_set(folder, line, has_network=network)
    (tmp_path / "command.json").write_bytes(b"\xff")
    with pytest.raises(Usage, match="not a text"):
        read_set(tmp_path, None)


def test_large_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.rego").write_text("#" * 1_100_000)
    with pytest.raises(Usage, match="more than 1 MiB"):
        read_files(tmp_path)


def test_source_names_folder_and_commit_and_local_changes(tmp_path: Path) -> None:
    (rules := tmp_path / "rules").mkdir()
    assert source_of(rules) == ""
    (rules / "a.rego").write_text("package main")
    for words in ("init -q", "add .", "-c user.name=a -c user.email=a@example.org commit -qm rules"):
        subprocess.run(["git", "-C", str(tmp_path), *words.split()], check=True)
    commit = source_of(rules).removeprefix("rules@")
    assert len(commit) >= 7
    (rules / "a.rego").write_text("package other")
    assert source_of(rules) == f"rules@{commit} with local changes"


def test_result_of_a_back_test_names_rule_job_and_resource() -> None:
    item = {"number": 58, "module_path": "a/b", "resource": "x.y", "text": "no cost tag", "outcome": None}
    rule = {"rule": "deny_cost", "kind": "deny", "plans": 2, "modules": 1, "items": [item]}
    vague = {**rule, "rule": "", "kind": "unclear", "plans": 1, "items": [{**item, "number": 59}]}
    counts = {"total": 4, "modules": 2, "passed": 1, "refused": 2, "applied": 0, "unclear": 1, "missing": 0}
    assert "\n".join(report_lines({**counts, "rules": [rule, vague]})).splitlines() == [
        "4 plans of 2 modules: 1 would pass, 2 would be refused (0 of them were applied), 1 are unclear, 0 could not be tested.",
        "",
        "deny_cost refuses 2 plans of 1 modules",
        "  #58  a/b  x.y  no cost tag  (not applied)",
        "  and 1 more",
        "",
        "The set cannot judge 1 plans of 1 modules",
        "  #59  a/b  x.y  no cost tag  (not applied)",
    ]
