"""A module's form is accepted as a whole or refused field by field, with helpful messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.modules.view.spec import HOOKS, check
from app.ui.form import fields
from app.ui.form.fields import Wrong

GIT = {
    "name": "vpc",
    "group_path": "platform/network",
    "source_kind": "git",
    "git_url": "https://git.example.com/infra/platform",
    "git_ref": "",
    "git_subfolder": "network/vpc",
    "engine": "tofu",
    "labels": "gpu=true, zone=eu",
    "approvals_required": "2",
    "auto_apply": "on",
    "hook:before_plan": "policy.sh\n",
    "extra_path:1": "backend.override.tf",
    "extra_content:1": "terraform {}",
    "extra_path:2": "",
    "extra_content:2": "",
}


def test_a_git_module() -> None:
    checked = check(GIT, is_new=True)
    assert checked.errors == {}
    assert checked.spec["source"] == {
        "url": "https://git.example.com/infra/platform",
        "ref": "main",
        "subfolder": "network/vpc",
    }
    assert checked.spec["labels"] == ["gpu=true", "zone=eu"]
    assert checked.spec["extra_files"] == [{"path": "backend.override.tf", "content": "terraform {}"}]
    assert checked.spec["hooks"] == {"before_plan": "policy.sh\n"}
    assert (checked.spec["approvals_required"], checked.spec["auto_apply"]) == (2, True)
    assert checked.spec["can_apply_uploads"] is False
    assert check({**GIT, "can_apply_uploads": "on"}, is_new=True).spec["can_apply_uploads"] is True


@pytest.mark.parametrize(
    ("form", "source"),
    [
        (
            {"source_kind": "archive", "archive_url": "https://example.com/a.tar.gz", "archive_sha256": "AB" * 32},
            {"url": "https://example.com/a.tar.gz", "sha256": "ab" * 32, "subfolder": ""},
        ),
        ({"source_kind": "inline", "inline_path:1": "main.tf", "inline_content:1": "x"}, {"files": {"main.tf": "x"}}),
        ({"source_kind": "local", "local_path": "/srv/infra"}, {"path": "/srv/infra"}),
    ],
)
def test_archive_inline_and_local_sources_are_accepted(form: dict[str, str], source: dict[str, Any]) -> None:
    checked = check({**form, "name": "a", "group_path": "b"}, is_new=True)
    assert (checked.errors, checked.spec["source"]) == ({}, source)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", ""),
        ("name", "Prod EU"),
        ("group_path", ""),
        ("group_path", "a//b"),
        ("source_kind", "ftp"),
        ("engine", "bash"),
        ("engine_version", "latest"),
        ("git_url", "file:///etc"),
        ("git_url", "https://user:secret@git.example.com/x"),
        ("git_url", "ext::sh -c whoami"),
        ("git_ref", "--upload-pack=touch /tmp/x"),
        ("git_ref", "a..b"),
        ("git_subfolder", "../other"),
        ("labels", "GPU=true"),
        ("approvals_required", "-1"),
        ("approvals_required", "99"),
        ("approval_hours", "0"),
        ("time_limits", "plan=never"),
        ("time_limits", "plan=8d"),
        ("drift_ignores", "aws_vpc.main"),
        ("drift_ignores", "aws_vpc.main until=soon # r"),
        ("extra_path:1", "/etc/passwd"),
        ("extra_path:1", "a/../../b"),
        ("extra_path:1", "a\\b"),
        ("extra_path:1", "~/x"),
        ("extra_content:1", "\x00"),
        ("extra_content:1", "x" * (fields.MAX_TEXT + 1)),
    ],
)
def test_an_invalid_value_is_reported_at_its_field(key: str, value: str) -> None:
    assert list(check({**GIT, key: value}, is_new=True).errors) == [key]


def test_a_file_twice_is_refused() -> None:
    form = {**GIT, "extra_path:2": "backend.override.tf", "extra_content:2": "again"}
    assert check(form, is_new=True).errors == {"extra_path:2": "backend.override.tf is listed twice."}


def test_inline_needs_a_file() -> None:
    assert "inline" in check({**GIT, "source_kind": "inline"}, is_new=True).errors


def test_a_bad_name_comes_with_a_better_one() -> None:
    with pytest.raises(Wrong, match="Try prod-eu"):
        fields.name("Prod EU")


def test_hooks_are_before_and_after_each_step() -> None:
    assert len(HOOKS) == 10
    assert {"before_init", "after_output"} <= set(HOOKS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(JSON | st.dictionaries(st.sampled_from([*GIT, "local_path", "inline_path:1"]), JSON, max_size=12))
def test_whatever_a_browser_sends_is_answered_without_an_exception(form: object) -> None:
    checked = check(form, is_new=True)
    assert all(isinstance(words, str) and words for words in checked.errors.values())
