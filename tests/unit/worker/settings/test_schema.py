"""The published schema and the reference page agree with the model."""

import json
import re
from pathlib import Path

import pytest

from worker.settings.schema import (
    CATEGORIES,
    REFERENCE_FILE,
    SCHEMA_FILE,
    SERVED_FILE,
    reference_text,
    schema_text,
    settings_schema,
)

ROOT = Path(__file__).parents[4]


def test_published_files_are_in_step() -> None:
    advice = "run `python -m worker.settings.schema`"
    assert (ROOT / SCHEMA_FILE).read_text() == (ROOT / SERVED_FILE).read_text() == schema_text(), advice
    assert (ROOT / REFERENCE_FILE).read_text() == reference_text(), advice


def test_schema_accepts_a_partial_file_and_refuses_a_wrong_one() -> None:
    import jsonschema  # type: ignore[import-untyped] # seconds, which each process of a run would spend

    schema = json.loads(schema_text())
    jsonschema.validate({"$schema": "x", "Runner": {"Instance": "a"}}, schema)
    jsonschema.validate({"Logging": {"LogLevel": {"Default": "None"}, "Console": {}}}, schema)
    mistakes: list[dict[str, object]] = [{"Runer": {}}, {"JobLogStream": {"BatchSizeLimit": 0}}, {"Executor": {}}]
    for wrong in mistakes:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_every_setting_has_a_description() -> None:
    schema = settings_schema()
    parts = [schema, *schema["$defs"].values()]
    bare = [
        name
        for part in parts
        for name, field in part.get("properties", {}).items()
        if "$ref" not in field and name != "$schema" and not field.get("description")
    ]
    assert bare == []


def test_every_category_of_the_log_is_documented() -> None:
    texts = [file.read_text() for file in (ROOT / "worker").rglob("*.py")]
    used = {name for text in texts for name in re.findall(r'get_logger\("([a-z.]+)"\)', text)}
    assert used == set(CATEGORIES)
    assert all(f"- `{name}`:" in reference_text() for name in used)


def test_the_reference_folds_by_section() -> None:
    text = reference_text()
    assert text.count('??? abstract "') >= 12
    assert "\n| setting |" not in text, "every table is inside of a fold"
