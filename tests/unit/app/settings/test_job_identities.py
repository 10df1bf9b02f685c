"""Identities of jobs in words, and the form that attaches one."""

from typing import Any

import pytest

from app.settings.view.job_identities import build_view, check_form

ROLES = {"plan_role": "arn:aws:iam::123456789012:role/plan", "apply_role": "arn:aws:iam::123456789012:role/apply"}
ROW: dict[str, Any] = {"id": "1", "name": "aws", "kind": "aws", "path": "a", "audience": "x", "settings": ROLES}


def job(status: str, path: str = "a/b", **more: Any) -> dict[str, Any]:
    return {"id": 7, "status": status, "module_path": path, **more}


@pytest.mark.parametrize(
    ("jobs", "test", "words"),
    [
        ([], "NONE", "Not tested"),
        ([job("SUCCEEDED", "ab/c")], "NONE", "Not tested"),
        ([job("PROCESSING")], "TESTING", "Testing"),
        ([job("SUCCEEDED", result={"identities": {"aws": "fine"}}), job("FAILED")], "WORKS", "fine"),
        ([job("FAILED", result={"identities": {"aws": "no"}})], "REFUSED", "no"),
        ([job("FAILED", error={"message": "No runner."})], "REFUSED", "No runner."),
    ],
)
def test_the_newest_test_below_the_path_counts(jobs: list[dict[str, Any]], test: str, words: str) -> None:
    shown = build_view(ROW, jobs)
    assert (shown["test"], shown["test_words"]) == (test, words)


def test_the_form_reads_the_fields_of_its_kind_and_reports_missing_ones() -> None:
    checked = check_form({**ROLES, "region": " ", "tenant_id": "1", "audience": " x "}, "aws")
    assert checked.spec == {"kind": "aws", "settings": ROLES, "audience": "x"}
    assert {key: value for key, value in build_view(ROW)["settings"].items() if value} == ROLES
    assert list(check_form({"name": "x"}, "custom").errors) == ["audience"]
