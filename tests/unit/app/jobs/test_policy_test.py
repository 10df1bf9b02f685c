"""A back-test in words."""

from typing import Any

from app.jobs.view.policy_test import PolicyTest, build

ITEM = {"number": 58, "module_path": "a/b", "resource": "x.y", "text": "no cost tag", "outcome": None}
ANSWER: dict[str, Any] = {
    "name": "tags", "path": "", "source": "", "days": 30, "status": "SUCCEEDED", "total": 4, "done": 4, "modules": 2,
    "passed": 1, "refused": 3, "applied": 1, "unclear": 2, "missing": 1,
    "rules": [
        {"rule": "deny_cost", "kind": "deny", "plans": 3, "modules": 1, "items": [ITEM, {**ITEM, "outcome": "SUCCEEDED"}]},
        {"rule": "", "kind": "deny", "plans": 1, "modules": 1, "items": [{**ITEM, "outcome": "CANCELLED"}]},
        {"rule": "", "kind": "unclear", "plans": 1, "modules": 1, "items": [ITEM]},
        {"rule": "warn_x", "kind": "warn", "plans": 1, "modules": 1, "items": [{**ITEM, "resource": None}]},
    ],
}  # fmt: skip


def test_result_in_words() -> None:
    found = build(ANSWER)
    assert (
        found.about == "Written in the browser, over the plans of all modules in the last 30 days. Nothing was changed."
    )
    assert (found.done, found.of_modules, found.applied) == ("4 of 4", "of 2 modules", "1 of them were applied")
    cost, broken, vague, warning = found.rules
    assert (found.unclear, vague.is_warning) == (2, True)
    assert vague.name.startswith("Unclear")
    assert (cost.words, cost.more) == ("3 plans of 1 module", "2 more plans")
    assert [each.outcome for each in cost.found] == ["Not applied", "Applied"]
    assert (broken.name, broken.found[0].outcome) == ("The set cannot be evaluated", "Cancelled")
    assert (warning.is_warning, warning.found[0].resource) == (True, "")


def test_other_job_has_none() -> None:
    assert build(None) == PolicyTest()
    assert not build({**ANSWER, "status": "PROCESSING"}).is_done
