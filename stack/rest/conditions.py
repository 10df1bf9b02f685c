"""Fields, filters and order as SQL."""

from stack.rest.catalog import Table
from stack.rest.filtering import FULL_TEXT, IS_VALUES, SIMPLE, Filter, Tree
from stack.rest.query import Slice
from stack.rest.scanner import Field
from stack.rest.sqltext import Values, quoted

JSON_TYPES = ("json", "jsonb")
TEXT_TYPES = ("text", "character varying", "json", "jsonb")


class Conditions:
    """Renders what narrows one relation, known under one name in the statement."""

    def __init__(self, name: str, table: Table | None, values: Values) -> None:
        self._name = quoted(name)
        self._table = table
        self._values = values

    def field(self, field: Field) -> str:
        """A column or a place in its json."""
        column = f"{self._name}.{quoted(field.name)}"
        if not field.path:
            return column
        if self._type(field) not in JSON_TYPES:
            column = f"to_jsonb({column})"
        for arrow, key in field.path:
            if isinstance(key, int):
                column += f" {arrow} {self._values.bind(str(key))}::int"
            else:
                column += f" {arrow} {self._values.bind(key)}::text"
        return f"({column})"

    def where(self, narrowed: Slice, *more: str) -> str:
        """A where clause, or nothing."""
        terms = [*more, *(self._branch(branch) for branch in narrowed.filters)]
        return f" where {' and '.join(terms)}" if terms else ""

    def order(self, narrowed: Slice) -> str:
        """An order by clause, or nothing."""
        terms = [self.field(term.field) + term.direction for term in narrowed.order]
        return f" order by {', '.join(terms)}" if terms else ""

    def page(self, limit: int | None, offset: int) -> str:
        """Limit and offset, or nothing."""
        text = "" if limit is None else f" limit {self._values.bind(str(limit))}::bigint"
        return text + (f" offset {self._values.bind(str(offset))}::bigint" if offset else "")

    def _type(self, field: Field) -> str | None:
        column = self._table.columns.get(field.name) if self._table else None
        # A function's result is not in the cache; json is the likely thing to point into.
        return column.type if column else "jsonb"

    def _branch(self, branch: Filter | Tree) -> str:
        if isinstance(branch, Filter):
            return self._filter(branch)
        joined = f" {branch.operator} ".join(self._branch(inner) for inner in branch.branches)
        return f"{'not ' if branch.is_negated else ''}({joined})"

    def _filter(self, found: Filter) -> str:
        negation = "not " if found.is_negated else ""
        return f"{negation}({self._comparison(found)})"

    def _comparison(self, found: Filter) -> str:
        column = self.field(found.field)
        if found.operator == "is":
            return f"{column} is {IS_VALUES[found.value]}"
        if found.operator == "in":
            return f"{column} = any({self._values.bind(_array(found.items))})"
        if found.operator in FULL_TEXT:
            return self._full_text(column, found)
        value = found.value.replace("*", "%") if found.operator in ("like", "ilike") else found.value
        bound = self._values.bind(value)
        if found.argument is not None:
            bound = f"{found.argument}({bound})"
        return f"{column} {SIMPLE[found.operator]} {bound}"

    def _full_text(self, column: str, found: Filter) -> str:
        language = "" if found.argument is None else f"{self._values.bind(found.argument)}::regconfig, "
        if self._type(found.field) in TEXT_TYPES:
            column = f"to_tsvector({language}{column})"
        return f"{column} @@ {FULL_TEXT[found.operator]}({language}{self._values.bind(found.value)})"


def _array(items: tuple[str, ...]) -> str:
    """A PostgreSQL array literal, every item quoted."""
    return "{" + ",".join('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items) + "}"
