"""Changes in Supabase's message shape."""

from dataclasses import dataclass, field

import orjson

from stack.realtime.catalog import RoleView, Table, commit_timestamp
from stack.realtime.stream import Begin, Missing, Relation, Row, RowChange

SMALL_VALUE_BYTES = 64
TOO_LARGE = "Error 413: Payload Too Large"
NO_PRIMARY_KEY = "Error 400: Bad Request, no primary key"

Values = dict[str, str | None]


@dataclass(slots=True)
class Change:
    """A row change with its values by column name; absent columns were not sent."""

    type: str
    table: Table
    begin: Begin
    new: Values
    old: Values
    fragments: dict[tuple[bool, str], bytes] = field(default_factory=dict)

    @property
    def row(self) -> Values:
        """The row that filters check: the new one, or the remaining values of a deleted one."""
        return self.old if self.type == "DELETE" else self.new

    @property
    def key(self) -> tuple[str, ...] | None:
        """The primary key's values, if all are known."""
        values = [self.row.get(name) for name in self.table.keys]
        return tuple(value for value in values if value is not None) if None not in values else None


def make_change(message: RowChange, relation: Relation, table: Table, begin: Begin) -> Change:
    """Name the values, and fill what the stream leaves out where that is possible."""
    new = _named(relation, message.new)
    old = _named(relation, message.old)
    if message.has_key_only:
        keys = {item.name for item in relation.fields if item.is_key}
        old = {name: value for name, value in old.items() if name in keys}
    elif old and new:
        _fill_unsent(relation, message.new, new, old)
    if message.type == "UPDATE" and not old:
        old = {name: new[name] for name in table.keys if name in new}
    return Change(message.type, table, begin, new, old)


def _named(relation: Relation, row: Row | None) -> Values:
    if row is None:
        return {}
    return {
        item.name: value for item, value in zip(relation.fields, row, strict=True) if not isinstance(value, Missing)
    }


def _fill_unsent(relation: Relation, row: Row | None, new: Values, old: Values) -> None:
    """Under replica identity FULL an untouched large value is in the old row."""
    for item, value in zip(relation.fields, row or (), strict=True):
        if isinstance(value, Missing) and item.name in old:
            new[item.name] = old[item.name]


def render(change: Change, view: RoleView, max_bytes: int) -> bytes:
    """The `data` object for one role, as JSON."""
    table = change.table
    if not table.keys and change.type != "DELETE":
        return _render_error(change, NO_PRIMARY_KEY)
    is_oversize = _size(change) > max_bytes
    names = [name for name in table.columns if name in view.columns]
    fields: dict[str, object] = {
        "schema": table.schema,
        "table": table.name,
        "commit_timestamp": commit_timestamp(change.begin.committed_at_us),
        "type": change.type,
        "columns": [{"name": name, "type": table.columns[name].type_name} for name in names],
        "errors": [TOO_LARGE] if is_oversize else None,
    }
    if change.type != "DELETE":
        fields["record"] = _fragment(change, names, is_oversize, is_new=True)
    if change.type != "INSERT":
        # Row-level security cannot be checked for a deleted row, so only its key is sent.
        is_key_alone = change.type == "DELETE" and table.has_rls
        old = [name for name in names if not is_key_alone or table.columns[name].is_key]
        fields["old_record"] = _fragment(change, old, is_oversize, is_new=False)
    return orjson.dumps(fields)


def _render_error(change: Change, error: str) -> bytes:
    return orjson.dumps(
        {
            "schema": change.table.schema,
            "table": change.table.name,
            "type": change.type,
            "commit_timestamp": None,
            "columns": None,
            "record": None,
            "errors": [error],
        }
    )


def _fragment(change: Change, names: list[str], is_oversize: bool, *, is_new: bool) -> orjson.Fragment:
    values = change.new if is_new else change.old
    members = []
    for name in names:
        if name in values:
            text = _value(change, name, is_new)
            if not is_oversize or len(text) <= SMALL_VALUE_BYTES:
                members.append(orjson.dumps(name) + b":" + text)
    return orjson.Fragment(b"{" + b",".join(members) + b"}")


def _value(change: Change, name: str, is_new: bool) -> bytes:
    """One value as JSON, converted once however many roles look at it."""
    key = (is_new, name)
    if key not in change.fragments:
        text = (change.new if is_new else change.old)[name]
        change.fragments[key] = b"null" if text is None else change.table.columns[name].to_json(text)
    return change.fragments[key]


def _size(change: Change) -> int:
    known = change.table.columns
    rows = ((True, change.new), (False, change.old))
    return sum(len(name) + len(_value(change, name, is_new)) for is_new, row in rows for name in row if name in known)
