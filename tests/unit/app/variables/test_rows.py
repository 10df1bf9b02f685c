"""Variables in words, and the form that sets one."""

from typing import Any

import pytest

from app.variables.view.rows import build_row, build_rows, check_form, check_sealed, input_of, text_of


def row(**more: Any) -> dict[str, Any]:
    return {"id": 1, "kind": "input", "name": "size", "value": 3, "path": "a/b", "version": 2, **more}


def test_a_row_shows_its_value_its_source_and_the_values_that_it_hides() -> None:
    hidden = [row(path="a", value=[1]), row(path="", value="x", is_enforced=False)]
    own, inherited = build_rows([row(hides=hidden), row(path="", is_enforced=True, warning="Looks odd.")], "a/b")
    assert (own["value"], own["is_own"], own["hides"]) == ("3", True, 'hides [1] from a, "x" from the organisation')
    assert (inherited["source"], inherited["is_own"]) == ("the organisation, enforced", False)
    assert inherited["warning"] == "Looks odd."


def test_values_are_shown_on_one_line_and_files_by_their_size() -> None:
    shown = [
        build_row(each, "a/b")["value"]
        for each in (row(kind="env", value="eu"), row(kind="file", value="äb"), row(value="1 + 1", is_hcl=True))
    ]
    assert shown == ["eu", "3 bytes", "1 + 1"]
    assert build_row(row(value="x" * 500), "")["value"].endswith("…")


@pytest.mark.parametrize("value", [3, "3", "eu", "true", True, None, "", ["a", {"b": "ä"}], '"', "NaN", "[", {}])
def test_the_form_gives_back_the_value_that_it_was_given(value: Any) -> None:
    assert input_of(text_of(row(value=value))) == value


@pytest.mark.parametrize(
    ("kind", "value", "spec"),
    [
        ("input", "[1, 2]", {"kind": "input", "value": [1, 2], "is_hcl": False}),
        ("hcl", "[1, 2]", {"kind": "input", "value": "[1, 2]", "is_hcl": True}),
        ("env", "3", {"kind": "env", "value": "3", "is_hcl": False}),
        ("file", "{}", {"kind": "file", "value": "{}", "is_hcl": False}),
    ],
)
def test_each_kind_reads_its_value(kind: str, value: str, spec: dict[str, Any]) -> None:
    checked = check_form({"name": " n ", "value": value}, kind, is_enforced=True)
    assert (checked.spec, checked.errors) == ({**spec, "name": "n", "is_enforced": True, "is_reference": False}, {})


def test_a_reference_shows_its_address_and_needs_one() -> None:
    shown = build_row(row(value="vault://kv/x#y", key_id="k", is_reference=True, kind="file"), "")
    assert (shown["value"], shown["is_sealed"], shown["is_reference"]) == ("vault://kv/x#y", False, True)
    checked = check_form({"name": "n", "value": " file:///x "}, "input", is_enforced=False, is_reference=True)
    assert (checked.spec["value"], checked.errors) == ("file:///x", {})
    wrong = check_form({"name": "n", "value": "x"}, "input", is_enforced=False, is_reference=True)
    assert list(wrong.errors) == ["value"]


@pytest.mark.parametrize(
    ("kind", "form", "field"),
    [
        ("input", {"name": " "}, "name"),
        ("input", 3, "name"),
        ("secret", {"name": "a"}, "kind"),
        ("input", {"name": "a", "value": "x" * 1_000_001}, "value"),
        ("env", {"name": "A-B"}, "name"),
    ],
)
def test_an_invalid_variable_is_reported_at_its_field(kind: str, form: object, field: str) -> None:
    assert list(check_form(form, kind, is_enforced=False).errors) == [field]


PLACE = '["a/b","input","size",false]'


@pytest.mark.parametrize(
    ("form", "errors"),
    [
        ({"box": "Zm9v", "place": PLACE}, []),
        ({"box": "", "place": PLACE}, ["value"]),
        ({"value": "typed", "place": PLACE}, ["value"]),
        ({"box": "Zm9v", "place": PLACE.replace("a/b", "a")}, ["value"]),
    ],
)
def test_a_secret_is_saved_as_the_box_for_its_own_place(form: dict[str, str], errors: list[str]) -> None:
    checked = check_form({"name": "size", **form}, "input", is_enforced=False)
    check_sealed(checked, form, "a/b", "0123456789abcdef")
    assert list(checked.errors) == errors
    assert (checked.spec["value"], checked.spec["key_id"]) == (form.get("box", ""), "0123456789abcdef")
