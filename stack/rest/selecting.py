"""The `select` and `order` parameters."""

from dataclasses import dataclass

from stack.rest.errors import Unsupported
from stack.rest.scanner import Field, Scanner


@dataclass(frozen=True, slots=True)
class Column:
    """A field to return, possibly cast and renamed; `*` is every column."""

    field: Field
    cast: str | None = None
    alias: str | None = None

    @property
    def is_star(self) -> bool:
        """Whether it means all columns."""
        return self.field.name == "*"

    @property
    def label(self) -> str:
        """The key in the result."""
        return self.alias or self.field.label


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of `order`."""

    field: Field
    direction: str = ""


STAR = Column(Field("*"))


def parse_select(text: str) -> list[Column]:
    """The columns that `select` asks for."""
    columns: list[Column] = []
    scanner = Scanner(text, "failed to parse select parameter")
    while True:
        scanner.spaces()
        columns.append(_column(scanner))
        scanner.spaces()
        if scanner.at_end:
            return columns
        scanner.need(",")


def _column(scanner: Scanner) -> Column:
    if scanner.skip("*"):
        return STAR
    is_spread = scanner.peek("...")
    alias = None if is_spread else _alias(scanner)
    field = None if is_spread else scanner.field()
    if field is None or any(scanner.peek(sign) for sign in "!(."):
        raise Unsupported("embedded rows and aggregate functions in `select`")
    return Column(field, scanner.identifier() if scanner.skip("::") else None, alias)


def _alias(scanner: Scanner) -> str | None:
    start = scanner.position
    scanner.spaces()
    name = scanner.name()
    if scanner.peek(":") and not scanner.peek("::"):
        scanner.need(":")
        return name
    scanner.position = start
    return None


def parse_order(text: str) -> list[OrderTerm]:
    """The terms of `order`."""
    scanner = Scanner(text, "failed to parse order")
    terms: list[OrderTerm] = []
    while True:
        field = scanner.field()
        if scanner.peek("("):
            raise Unsupported("ordering by the column of another table")
        terms.append(OrderTerm(field, _direction(scanner)))
        if scanner.at_end:
            return terms
        scanner.need(",")


def _direction(scanner: Scanner) -> str:
    words = {".asc": " asc", ".desc": " desc"}
    nulls = {".nullsfirst": " nulls first", ".nullslast": " nulls last"}
    found = next((words[word] for word in words if scanner.skip(word)), "")
    found += next((nulls[word] for word in nulls if scanner.skip(word)), "")
    if not (scanner.at_end or scanner.peek(",")):
        raise scanner.fail('"asc", "desc", "nullsfirst" or "nullslast"')
    return found
