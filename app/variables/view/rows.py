"""Variables in words: the value, where it comes from, what it hides; and the form that sets one."""

import json
from typing import Any, TypedDict

from app.ui.form import fields
from app.ui.form.fields import Checked, texts
from app.ui.view import Row, count, read

KINDS = {"input": "Input", "hcl": "Input, HCL expression", "env": "Environment", "file": "File"}
# A longer value is shown by its beginning.
MOST_SHOWN = 120
MOST_TEXT = 1_000_000
SCHEMES = ("vault://", "aws-sm://", "file://")


class VariableView(TypedDict):
    """One variable of a path, set there or inherited."""

    id: str
    name: str
    kind: str
    words: str
    value: str
    text: str
    source: str
    href: str
    hides: str
    warning: str
    version: int
    job: int
    used_by: str
    used_at: str
    is_own: bool
    is_enforced: bool
    is_sealed: bool
    is_reference: bool


class UsersView(TypedDict):
    """The modules whose jobs get a variable, the people who can start them, and the runners that open secrets."""

    modules: str
    people: str
    runners: str


NOBODY: UsersView = {"modules": "", "people": "", "runners": ""}
MOST_NAMED = 20


def build_users(row: Row) -> UsersView:
    people = [f"{each['email']} ({each['role']})" for each in row["members"]]
    return {
        "modules": _named(row["modules"]),
        "people": _named([*people, *(f"{name} (service account)" for name in row["accounts"])]),
        "runners": _named(row["runners"]),
    }


def _named(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "") or "None"


def build_rows(rows: list[Row], path: str) -> list[VariableView]:
    return [build_row(row, path) for row in rows]


def build_row(row: Row, path: str) -> VariableView:
    kind = "hcl" if row.get("is_hcl") else str(row["kind"])
    hidden = [f"{shown_value(each)} from {_place(each)}" for each in row.get("hides") or ()]
    use = row.get("last_use") or {}
    return read(
        VariableView,
        row,
        kind=kind,
        words={"hcl": "Input"}.get(kind, KINDS[kind]),
        value=shown_value(row),
        text=text_of(row),
        source=_place(row),
        href=f"/dashboard/modules/variables?path={row['path']}",
        hides=f"hides {', '.join(hidden)}" if hidden else "",
        version=row.get("version") or 1,
        job=use.get("job"),
        used_by=f"#{use['number']}" if use.get("number") else "",
        used_at=use.get("used_at"),
        is_own=row["path"] == path,
        is_sealed=_is_sealed(row),
    )


def shown_value(row: Row) -> str:
    """Write a value on one line; a file is shown by its size."""
    value = row.get("value")
    if _is_sealed(row):
        return "Sealed"
    is_code = row["kind"] == "env" or row.get("is_hcl") or row.get("is_reference")
    if row["kind"] == "file" and not is_code:
        return count(len(str(value).encode()), "byte")
    line = str(value) if is_code else json.dumps(value, ensure_ascii=False)
    return line if len(line) <= MOST_SHOWN else f"{line[:MOST_SHOWN]}…"


def _is_sealed(row: Row) -> bool:
    return bool(row.get("key_id")) and not row.get("is_reference")


def text_of(row: Row) -> str:
    """Write a value as the form has it: a text without quotes, unless it would then be read as JSON."""
    value = row.get("value")
    if isinstance(value, str) and (row["kind"] != "input" or row.get("is_hcl") or input_of(value) == value):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def input_of(text: str) -> Any:
    """Read an input as people type it: JSON where it is JSON, else a text."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError:
        return text


def _refuse(constant: str) -> Any:
    """Refuse NaN and Infinity, which only Python reads as JSON."""
    raise ValueError(constant)


def check_form(raw: object, kind: str, *, is_enforced: bool, is_reference: bool = False) -> Checked:
    """Check the form of one variable; the database checks names and sizes."""
    form, checked = texts(raw), Checked()
    rule = fields.env_name if kind == "env" else _any_name
    name = checked.take("name", form, rule, "")
    value = checked.take("value", form, lambda text: fields.text_of(text, MOST_TEXT), "")
    if kind not in KINDS:
        checked.errors["kind"] = f"One of {', '.join(KINDS)}."
    if is_reference and not value.strip().startswith(SCHEMES):
        checked.errors["value"] = f"An address that begins with {', '.join(SCHEMES)}."
    checked.spec = {
        "kind": "input" if kind == "hcl" else kind,
        "name": name,
        "value": value.strip() if is_reference else input_of(value) if kind == "input" else value,
        "is_hcl": kind == "hcl",
        "is_enforced": is_enforced,
        "is_reference": is_reference,
    }
    return checked


def check_sealed(checked: Checked, raw: object, path: str, key_id: str) -> None:
    """Put the box that the browser made in the place of the value; it opens only at the place that is inside it."""
    form, spec = texts(raw), checked.spec
    place = json.dumps([path, spec["kind"], spec["name"], spec["is_hcl"]], ensure_ascii=False, separators=(",", ":"))
    if not form.get("box"):
        checked.errors["value"] = "A value is needed."
    elif form.get("place") != place:
        checked.errors["value"] = "The form changed meanwhile. Save again."
    checked.spec = {**spec, "value": form.get("box", ""), "key_id": key_id}


def _any_name(text: str) -> str:
    if not text.strip():
        raise fields.Wrong("A name is needed.")
    return fields.text_of(text.strip(), 200)


def _place(row: Row) -> str:
    place = str(row["path"]) or "the organisation"
    return f"{place}, enforced" if row.get("is_enforced") else place
