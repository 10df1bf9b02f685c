"""Filters: `column=op.value`, and the trees of `or=(…)` and `and=(…)`."""

from dataclasses import dataclass

from stack.rest.errors import bad_query
from stack.rest.scanner import Field, Scanner

SIMPLE = {
    "eq": "=",
    "neq": "<>",
    "gt": ">",
    "gte": ">=",
    "lt": "<",
    "lte": "<=",
    "like": "like",
    "ilike": "ilike",
    "match": "~",
    "imatch": "~*",
}
IS_VALUES = {"null": "null", "not_null": "not null", "true": "true", "false": "false", "unknown": "unknown"}


@dataclass(frozen=True, slots=True)
class Filter:
    """One comparison."""

    field: Field
    operator: str
    value: str
    items: tuple[str, ...] = ()
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Tree:
    """Filters joined by `and` or `or`."""

    operator: str
    branches: tuple["Filter | Tree", ...]
    is_negated: bool = False


def parse_filter(field: Field, text: str) -> Filter:
    """A filter from `column=op.value`."""
    scanner = Scanner(text, "failed to parse filter")
    found = _operation(scanner, field, is_nested=False)
    if not scanner.at_end:
        raise scanner.fail("end of input")
    return found


def parse_tree(operator: str, text: str, *, is_negated: bool) -> Tree:
    """A tree from `or=(a.eq.1,and(b.gt.2,c.is.null))`."""
    scanner = Scanner(text, "failed to parse logic tree")
    tree = Tree(operator, _branches(scanner), is_negated)
    if not scanner.at_end:
        raise scanner.fail("end of input")
    return tree


def _branches(scanner: Scanner) -> tuple[Filter | Tree, ...]:
    scanner.deeper()
    scanner.spaces()
    scanner.need("(")
    branches: list[Filter | Tree] = []
    while True:
        scanner.spaces()
        branches.append(_branch(scanner))
        scanner.spaces()
        if not scanner.skip(","):
            break
    scanner.need(")")
    scanner.spaces()
    scanner.depth -= 1
    return tuple(branches)


def _branch(scanner: Scanner) -> Filter | Tree:
    start = scanner.position
    is_negated = scanner.skip("not.")
    for operator in ("and", "or"):
        if scanner.skip(operator):
            scanner.spaces()
            if scanner.peek("("):
                return Tree(operator, _branches(scanner), is_negated)
            scanner.position = start + (4 if is_negated else 0)
    scanner.position = start
    field = scanner.field()
    scanner.need(".")
    return _operation(scanner, field, is_nested=True)


def _operation(scanner: Scanner, field: Field, *, is_nested: bool) -> Filter:
    is_negated = scanner.skip("not.")
    start = scanner.position
    operator = scanner.until(".")
    if not scanner.skip(".") or operator not in (*SIMPLE, "in", "is"):
        scanner.position = start
        raise _unknown(scanner, operator)
    if operator == "in":
        return Filter(field, operator, "", _list(scanner), is_negated)
    value = _value(scanner, is_nested=is_nested)
    if operator == "is":
        if value.lower() not in IS_VALUES:
            raise scanner.fail("isVal: (null, not_null, true, false, unknown)")
        value = value.lower()
    return Filter(field, operator, value, (), is_negated)


def _unknown(scanner: Scanner, operator: str) -> Exception:
    place = f'"failed to parse filter ({scanner.text})" (line 1, column {scanner.position + 1})'
    return bad_query(place, f'unexpected "{operator}" expecting "not" or operator (eq, gt, ...)')


def _value(scanner: Scanner, *, is_nested: bool) -> str:
    if not is_nested:
        rest = scanner.text[scanner.position :]
        scanner.position = len(scanner.text)
        return rest
    return _element(scanner)


def _element(scanner: Scanner) -> str:
    start = scanner.position
    if scanner.peek('"'):
        value = scanner.quoted()
        if scanner.at_end or scanner.text[scanner.position] in ",)":
            return value
        scanner.position = start
    return scanner.until(",)")


def _list(scanner: Scanner) -> tuple[str, ...]:
    scanner.spaces()
    scanner.need("(")
    items = [_element(scanner)]
    while scanner.skip(","):
        items.append(_element(scanner))
    scanner.need(")")
    scanner.spaces()
    return () if items == [""] else tuple(items)
