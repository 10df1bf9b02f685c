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
class Embed:
    """A related resource to return inside each row."""

    name: str
    columns: tuple[Column, ...]
    alias: str | None = None
    hint: str | None = None
    is_inner: bool = False
    is_spread: bool = False

    @property
    def label(self) -> str:
        """The key in the result, by which filters name the resource too."""
        return self.alias or self.name


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of `order`."""

    field: Field
    direction: str = ""


STAR = Column(Field("*"))


def parse_select(text: str) -> tuple[list[Column], list[Embed]]:
    """The columns and the embedded resources that `select` asks for."""
    columns: list[Column] = []
    embeds: list[Embed] = []
    scanner = Scanner(text, "failed to parse select parameter")
    for item in _items(scanner, is_nested=False):
        if isinstance(item, Embed):
            embeds.append(item)
        else:
            columns.append(item)
    if not scanner.at_end:
        raise scanner.fail('"," or end of input')
    return columns, embeds


def _items(scanner: Scanner, *, is_nested: bool) -> list[Column | Embed]:
    items: list[Column | Embed] = []
    while True:
        scanner.spaces()
        items.append(_item(scanner, is_nested=is_nested))
        scanner.spaces()
        if not scanner.skip(","):
            return items


def _item(scanner: Scanner, *, is_nested: bool) -> Column | Embed:
    if scanner.skip("*"):
        return STAR
    is_spread = scanner.skip("...")
    alias = None if is_spread else _alias(scanner)
    field = scanner.field()
    if scanner.peek("!") or scanner.peek("("):
        if scanner.peek("()"):
            raise Unsupported("aggregate functions in `select`")
        if is_nested:
            raise Unsupported("embedding deeper than one level")
        return _embed(scanner, field.name, alias, is_spread=is_spread)
    if scanner.peek(".") or is_spread:
        raise Unsupported("aggregate functions in `select`") if not is_spread else scanner.fail('"("')
    cast = scanner.identifier() if scanner.skip("::") else None
    return Column(field, cast, alias)


def _alias(scanner: Scanner) -> str | None:
    start = scanner.position
    scanner.spaces()
    name = scanner.name()
    if scanner.peek(":") and not scanner.peek("::"):
        scanner.need(":")
        return name
    scanner.position = start
    return None


def _embed(scanner: Scanner, name: str, alias: str | None, *, is_spread: bool) -> Embed:
    hint, is_inner = None, False
    while scanner.skip("!"):
        word = scanner.name()
        if word == "inner":
            is_inner = True
        elif word != "left":
            hint = word
    scanner.need("(")
    items = [] if scanner.peek(")") else _items(scanner, is_nested=True)
    scanner.need(")")
    columns = tuple(item for item in items if isinstance(item, Column))
    return Embed(name, columns, alias, hint, is_inner, is_spread)


def parse_order(text: str) -> list[OrderTerm]:
    """The terms of `order`."""
    scanner = Scanner(text, "failed to parse order")
    terms: list[OrderTerm] = []
    while True:
        field = scanner.field()
        if scanner.peek("("):
            raise Unsupported("ordering by an embedded resource's column")
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
