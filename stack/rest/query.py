"""A request's query string, read into columns, filters, order and range."""

from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from stack.rest.errors import RestError, Unsupported, bad_query
from stack.rest.filtering import Filter, Tree, parse_filter, parse_tree
from stack.rest.scanner import Scanner
from stack.rest.selecting import STAR, Column, OrderTerm, parse_order, parse_select

MOST_PARAMETERS = 500
LARGEST_BIGINT = 2**63 - 1


@dataclass
class Query:
    """A whole query string."""

    columns: list[Column] = field(default_factory=lambda: [STAR])
    filters: list[Filter | Tree] = field(default_factory=list)
    order: list[OrderTerm] = field(default_factory=list)
    limit: int | None = None
    offset: int = 0


def parse_query(raw: bytes) -> Query:
    """Read a query string."""
    query = Query()
    for key, value in _pairs(raw):
        if key == "select":
            query.columns = parse_select(value or "*")
        elif key == "order":
            query.order += parse_order(value) if value else []
        elif key == "limit":
            query.limit = _count(value, "limit")
        elif key == "offset":
            query.offset = _count(value, "offset") or 0
        elif key in ("and", "or", "not.and", "not.or"):
            query.filters.append(parse_tree(key.removeprefix("not."), value, is_negated=key.startswith("not.")))
        elif key != "apikey":
            query.filters.append(_filter(key, value))
    return query


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        text = raw.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except ValueError as error:
        raise bad_query("The query string cannot be read", "It is not UTF-8, or has too many parameters") from error


def _filter(key: str, value: str) -> Filter:
    scanner = Scanner(key, "failed to parse tree path")
    found = scanner.field()
    if scanner.peek("."):
        raise Unsupported("filters on embedded rows")
    if not scanner.at_end:
        raise scanner.fail("end of input")
    return parse_filter(found, value)


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
