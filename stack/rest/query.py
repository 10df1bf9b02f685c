"""A request's query string, read into columns, conditions, order and page."""

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from stack.rest.errors import RestError, Unsupported, bad_query

MOST_PARAMETERS = 500
LARGEST_BIGINT = 2**63 - 1
SIMPLE = {
    "eq": "=", "neq": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "like": "like", "ilike": "ilike", "imatch": "~*",
}  # fmt: skip
IS_VALUES = {"null": "null", "not_null": "not null", "true": "true", "false": "false", "unknown": "unknown"}
COLUMN = re.compile(r"[\w$]+")
ORDER = re.compile(r"([\w$]+)(?:\.(asc|desc))?(?:\.nulls(first|last))?")
OPERATION = re.compile(r"(not\.)?(\w+)\.(.*)", re.DOTALL)
QUOTED = r'"(?:[^"\\]|\\.)*"'
# One of `or=(a.eq.1,b.in.(2,3))`: its value is in quotes, in parentheses, or ends at the next comma.
NESTED = re.compile(
    rf'([\w$]+)\.((?:not\.)?\w+\.(?:{QUOTED}|\((?:{QUOTED}|[^"()])*\)|[^,()"]*))(?:,(?!$)|$)', re.DOTALL
)
ELEMENT = re.compile(rf"({QUOTED})(?=,|$)|([^,]*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selected:
    """A column, or a value within a column of JSON: `name:column->key->key`."""

    column: str
    keys: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """One comparison."""

    column: str
    operator: str
    value: str
    items: tuple[str, ...] = ()
    is_negated: bool = False


@dataclass
class Query:
    """A whole query string. No columns mean all; the filters of a tuple are alternatives."""

    columns: list[Selected] = field(default_factory=list)
    filters: list[Filter | tuple[Filter, ...]] = field(default_factory=list)
    order: list[tuple[str, str]] = field(default_factory=list)
    limit: int | None = None
    offset: int = 0


def parse_query(raw: bytes) -> Query:
    """Read a query string."""
    query = Query()
    for key, value in _pairs(raw):
        if key == "select":
            query.columns = [] if value in ("", "*") else [_selected(name) for name in value.split(",")]
        elif key == "order":
            query.order += [_term(term) for term in value.split(",")] if value else []
        elif key == "limit":
            query.limit = _count(value, "limit")
        elif key == "offset":
            query.offset = _count(value, "offset") or 0
        elif key == "and":
            query.filters += _several(value)
        elif key == "or":
            query.filters.append(_several(value))
        else:
            query.filters.append(_filter(_column(key), value))
    return query


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        text = raw.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except ValueError as error:
        raise bad_query("The query string cannot be read", "It is not UTF-8, or has too many parameters") from error


def _selected(text: str) -> Selected:
    name, _, path = text.rpartition(":")
    column, *keys = (_column(part) for part in path.split("->"))
    return Selected(column, tuple(keys), _column(name) if name else keys[-1] if keys else "")


def _column(text: str) -> str:
    if not COLUMN.fullmatch(text.strip()):
        raise Unsupported(f"anything but a column by its name: {text[:80]}")
    return text.strip()


def _term(text: str) -> tuple[str, str]:
    """A column of `order`, and its direction as SQL has it."""
    found = ORDER.fullmatch(text.strip())
    if found is None:
        raise bad_query(f'"failed to parse order ({text})" (line 1, column 1)', "expecting column.asc or column.desc")
    name, direction, nulls = found.groups()
    return name, (f" {direction}" if direction else "") + (f" nulls {nulls}" if nulls else "")


def _several(text: str) -> tuple[Filter, ...]:
    """The comparisons of `or` and `and`, which have no others inside."""
    inside, position, found = text[1:-1], 0, []
    while text[:1] == "(" and text[-1:] == ")" and (item := NESTED.match(inside, position)):
        found.append(_filter(item[1], item[2], is_nested=True))
        position = item.end()
        if position == len(inside):
            return tuple(found)
    raise bad_query(f'"failed to parse logic tree ({text[:200]})"', "expecting (column.operator.value,…)")


def _filter(column: str, text: str, *, is_nested: bool = False) -> Filter:
    """A comparison from `op.value`; only inside of `or` and `and` quotes belong to no value."""
    found = OPERATION.fullmatch(text)
    if found is None or found[2] not in (*SIMPLE, "in", "is"):
        operator = found[2] if found else text.partition(".")[0]
        raise bad_query(
            f'"failed to parse filter ({text})"', f'unexpected "{operator}" expecting operator (eq, gt, ...)'
        )
    is_negated, operator, value = bool(found[1]), found[2], found[3]
    if operator == "in":
        return Filter(column, operator, "", _items(value), is_negated)
    if operator == "is":
        value = value.lower()
        if value not in IS_VALUES:
            raise bad_query(f'"failed to parse filter ({text})"', f"expecting one of {', '.join(IS_VALUES)}")
    return Filter(column, operator, _unquoted(value) if is_nested and value.startswith('"') else value, (), is_negated)


def _items(text: str) -> tuple[str, ...]:
    """The elements of `(1,"x,y")`."""
    if not (len(text) >= 2 and text[0] == "(" and text[-1] == ")"):
        raise bad_query(f'"failed to parse filter (in.{text})"', "expecting a list in parentheses")
    inside, position, items = text[1:-1], 0, []
    while inside and position <= len(inside):
        found = ELEMENT.match(inside, position)
        assert found is not None  # the second part fits anything
        items.append(_unquoted(found[1]) if found[1] else found[2])
        position = found.end() + 1
    return tuple(items)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def _count(value: str, name: str) -> int | None:
    if not value:
        return None
    try:
        number = int(value)
    except ValueError as error:
        raise bad_query(f'"failed to parse {name} ({value})" (line 1, column 1)', "expecting a number") from error
    if number < 0 and name == "limit":
        details = "Limit should be greater than or equal to zero."
        raise RestError(416, "PGRST103", "Requested range not satisfiable", details)
    return min(max(number, 0), LARGEST_BIGINT)
