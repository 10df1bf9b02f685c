"""A request's query string, read into columns, filters, order and range."""

from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from stack.rest.errors import RestError, Unsupported, bad_query
from stack.rest.filtering import Filter, Tree, is_filter, parse_filter, parse_tree
from stack.rest.scanner import Field, Scanner
from stack.rest.selecting import STAR, Column, Embed, OrderTerm, parse_order, parse_select

MOST_PARAMETERS = 500
LARGEST_BIGINT = 2**63 - 1


@dataclass
class Slice:
    """The filters, order and page of one resource: the root or an embedded one."""

    filters: list[Filter | Tree] = field(default_factory=list)
    order: list[OrderTerm] = field(default_factory=list)
    limit: int | None = None
    offset: int = 0


@dataclass
class Query:
    """A whole query string."""

    columns: list[Column] = field(default_factory=lambda: [STAR])
    embeds: list[Embed] = field(default_factory=list)
    root: Slice = field(default_factory=Slice)
    embedded: dict[str, Slice] = field(default_factory=dict)
    arguments: list[tuple[str, str]] = field(default_factory=list)
    body_columns: list[str] | None = None
    on_conflict: list[str] | None = None

    def slice_of(self, path: list[str]) -> Slice:
        """The resource a parameter's path names."""
        if not path:
            return self.root
        if len(path) > 1:
            raise Unsupported("embedding deeper than one level")
        return self.embedded.setdefault(path[0], Slice())


def parse_query(raw: bytes, *, is_call: bool = False) -> Query:
    """Read a query string; `is_call` makes parameters without an operator function arguments."""
    query = Query()
    if not raw:
        return query
    for key, value in _pairs(raw):
        if key == "select":
            query.columns, query.embeds = parse_select(value or "*")
        elif key == "columns":
            query.body_columns = _names(value, "columns")
        elif key == "on_conflict":
            query.on_conflict = _names(value, "on_conflict")
        elif key != "apikey":
            _narrow(query, key, value, is_call=is_call)
    _check_embedded(query)
    return query


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        text = raw.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except ValueError as error:
        raise bad_query("The query string cannot be read", "It is not UTF-8, or has too many parameters") from error


def _narrow(query: Query, key: str, value: str, *, is_call: bool) -> None:
    path, name = _path(key)
    if name.name in ("and", "or"):
        is_negated = bool(path) and path[-1] == "not"
        target = query.slice_of(path[:-1] if is_negated else path)
        target.filters.append(parse_tree(name.name, value, is_negated=is_negated))
    elif name.name == "order":
        query.slice_of(path).order += parse_order(value) if value else []
    elif name.name == "limit":
        query.slice_of(path).limit = _count(value, "limit")
    elif name.name == "offset":
        query.slice_of(path).offset = _count(value, "offset") or 0
    elif is_call and not path and not is_filter(value):
        query.arguments.append((key, value))
    else:
        query.slice_of(path).filters.append(parse_filter(name, value))


def _path(key: str) -> tuple[list[str], Field]:
    scanner = Scanner(key, "failed to parse tree path")
    path: list[str] = []
    while True:
        found = scanner.field()
        if scanner.at_end:
            return path, found
        scanner.need(".")
        path.append(found.name)


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


def _names(value: str, name: str) -> list[str]:
    scanner = Scanner(value, f"failed to parse {name} parameter")
    names: list[str] = []
    while True:
        scanner.spaces()
        names.append(scanner.name())
        scanner.spaces()
        if scanner.at_end:
            return names
        scanner.need(",")


def _check_embedded(query: Query) -> None:
    labels = {embed.label for embed in query.embeds} | {embed.name for embed in query.embeds}
    for name in query.embedded:
        if name not in labels:
            raise RestError(
                400,
                "PGRST108",
                f"'{name}' is not an embedded resource in this request",
                None,
                f"Verify that '{name}' is included in the 'select' query parameter.",
            )
