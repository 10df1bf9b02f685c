"""Fields, filters and order as SQL."""

from stack.rest.catalog import Table
from stack.rest.filtering import IS_VALUES, SIMPLE, Filter, Tree
from stack.rest.scanner import Field
from stack.rest.selecting import OrderTerm
from stack.rest.sqltext import Values, quoted

JSON_TYPES = ("json", "jsonb")


class Conditions:
    """Renders what narrows one table, known under its own name in the statement."""

    def __init__(self, table: Table, values: Values) -> None:
        self._name = quoted(table.name)
        self._table = table
        self._values = values
        self.star = f"{self._name}.*"

    def field(self, field: Field) -> str:
        """A column or a place in its json."""
        column = f"{self._name}.{quoted(field.name)}"
        if not field.path:
            return column
        if self._table.columns.get(field.name) not in JSON_TYPES:
            column = f"to_jsonb({column})"
        for arrow, key in field.path:
            if isinstance(key, int):
                column += f" {arrow} {self._values.bind(str(key))}::int"
            else:
                column += f" {arrow} {self._values.bind(key)}::text"
        return f"({column})"

    def where(self, filters: list[Filter | Tree]) -> str:
        """A where clause, or nothing."""
        return f" where {' and '.join(self._branch(branch) for branch in filters)}" if filters else ""

    def order(self, order: list[OrderTerm]) -> str:
        """An order by clause, or nothing."""
        terms = [self.field(term.field) + term.direction for term in order]
        return f" order by {', '.join(terms)}" if terms else ""

    def page(self, limit: int | None, offset: int) -> str:
        """Limit and offset, or nothing."""
        text = "" if limit is None else f" limit {self._values.bind(str(limit))}::bigint"
        return text + (f" offset {self._values.bind(str(offset))}::bigint" if offset else "")

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
        value = found.value.replace("*", "%") if found.operator in ("like", "ilike") else found.value
        return f"{column} {SIMPLE[found.operator]} {self._values.bind(value)}"


def _array(items: tuple[str, ...]) -> str:
    """A PostgreSQL array literal, every item quoted."""
    return "{" + ",".join('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items) + "}"
