"""The result of a test of policies stays small."""

from worker.steps.policy_test import MOST_OF_RULE, _few


def test_each_rule_is_reported_a_few_times() -> None:
    messages = [{"rule": "deny_a", "text": str(place)} for place in range(90)] + [{"rule": "deny_b", "text": "x"}]
    kept = _few(messages)
    assert [each["rule"] for each in kept] == ["deny_a"] * MOST_OF_RULE + ["deny_b"]
