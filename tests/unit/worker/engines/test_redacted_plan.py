"""A redacted plan: rules still find what they look at, and no secret is left in it."""

import gzip
import json
import time
from typing import Any

import pytest

from worker.engines import redacted_plan as module
from worker.engines.redacted_plan import HIDDEN, redacted_plan, without_marked
from worker.logs.redactor import Redactor

SECRET = "correct-horse-battery"
PLAN = {
    "format_version": "1.2",
    "variables": {"password": {"value": SECRET}, "region": {"value": "eu-west-1"}},
    "planned_values": {
        "outputs": {"password": {"sensitive": True, "value": SECRET}, "region": {"value": "eu-west-1"}},
        "root_module": {
            "resources": [
                {"address": "db.a", "values": {"size": 1, "password": SECRET}, "sensitive_values": {"password": True}}
            ],
            "child_modules": [
                {"address": "module.x", "resources": [{"values": {"keys": [SECRET]}, "sensitive_values": {"keys": True}}]}
            ],
        },
    },
    "resource_changes": [
        {
            "address": "db.a", "type": "db",
            "change": {
                "actions": ["update"], "before": {"size": 1, "tags": {"cost": "x"}, "password": SECRET},
                "after": {"size": 2, "tags": {}, "password": SECRET, "users": [{"name": "u", "key": SECRET}]},
                "after_unknown": {"id": True}, "before_sensitive": {"password": True},
                "after_sensitive": {"password": True, "users": [{"key": True}]},
                "generated_config": f'password = "{SECRET}"',
            },
        },
        {"address": "db.b", "change": {"actions": ["delete"], "before": {"size": 1}, "after": None}},
    ],
    "output_changes": {"password": {"actions": ["create"], "before": None, "after": SECRET, "after_sensitive": True}},
    "prior_state": {"values": {"root_module": {"resources": [{"values": {"password": SECRET}}]}}},
    "configuration": {
        "root_module": {
            "variables": {"password": {"sensitive": True, "default": SECRET}},
            "resources": [{"address": "db.a", "expressions": {"password": {"constant_value": SECRET}}}],
            "module_calls": {"x": {"source": "./x"}},
        }
    },
}  # fmt: skip


def redact(plan: Any, *secrets: str) -> Any:
    body = redacted_plan(json.dumps(plan).encode(), Redactor(secrets).redact)
    assert body is not None
    return json.loads(gzip.decompress(body))


def test_no_sensitive_value_is_left() -> None:
    """Nobody tells the redactor: the engine's marks are enough."""
    assert SECRET not in json.dumps(redact(PLAN))


def test_what_rules_look_at_is_left() -> None:
    found = redact(PLAN)
    first, second = found["resource_changes"]
    assert first["change"]["after"] == {
        "size": 2, "tags": {}, "password": HIDDEN, "users": [{"name": "u", "key": HIDDEN}],
    }  # fmt: skip
    assert first["change"]["after_unknown"] == {"id": True}
    assert second["change"]["after"] is None
    assert found["planned_values"]["root_module"]["resources"][0]["values"] == {"size": 1, "password": HIDDEN}
    assert found["configuration"]["root_module"]["module_calls"] == {"x": {"source": "./x"}}
    assert found["variables"] == {"password": {"value": HIDDEN}, "region": {"value": "eu-west-1"}}
    assert "prior_state" not in found


@pytest.mark.parametrize("secret", ["hunter2-hunter2", 'quo"te-and-more', "12345678"])
def test_secret_that_only_the_runner_knows_is_masked(secret: str) -> None:
    change = {"actions": ["create"], "after": {"a": secret, "b": f"x {secret} y", "n": 12345678, "kept": "k"}}
    found = redact({"resource_changes": [{"address": "a.b", "change": change}]}, secret)
    after = found["resource_changes"][0]["change"]["after"]
    assert secret not in (after["a"], after["b"])
    assert after["kept"] == "k"


@pytest.mark.parametrize(
    ("value", "mark", "wanted"),
    [
        ({"a": 1}, True, HIDDEN),
        (None, True, None),
        ([1, 2], [False, True], [1, HIDDEN]),
        ([1, 2], [True], [HIDDEN, 2]),
        ({"a": 1}, [True], {"a": 1}),
        ({"a": 1}, None, {"a": 1}),
    ],
)
def test_marks_of_the_engine(value: Any, mark: Any, wanted: Any) -> None:
    assert without_marked(value, mark) == wanted


def test_plan_that_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_KEPT", 10)
    assert redacted_plan(json.dumps(PLAN).encode(), str) is None
    monkeypatch.setattr(module, "LARGEST_PLAN", 10)
    assert redacted_plan(json.dumps(PLAN).encode(), str) is None


def test_plan_of_10_mb_is_redacted_at_once() -> None:
    values = {f"k{place}": f"value {place}" * 3 for place in range(60)}
    change = {"actions": ["create"], "before": None, "after": values, "after_sensitive": {}, "after_unknown": {}}
    shown = json.dumps({"resource_changes": [{"address": f"a.b[{at}]", "change": change} for at in range(4600)]})
    assert len(shown) > 10_000_000
    began = time.process_time()
    assert redacted_plan(shown.encode(), Redactor([SECRET]).redact)
    assert time.process_time() - began < 4, "usually 0.7 s"
