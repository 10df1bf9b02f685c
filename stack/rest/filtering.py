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
    "cs": "@>",
    "cd": "<@",
    "ov": "&&",
    "sl": "<<",
    "sr": ">>",
    "nxr": "&<",
    "nxl": "&>",
    "adj": "-|-",
    "isdistinct": "is distinct from",
}
QUANTIFIED = frozenset(("eq", "gt", "gte", "lt", "lte", "like", "ilike", "match", "imatch"))
FULL_TEXT = {
    "fts": "to_tsquery",
    "plfts": "plainto_tsquery",
    "phfts": "phraseto_tsquery",
    "wfts": "websearch_to_tsquery",
}
IS_VALUES = {"null": "null", "not_null": "not null", "true": "true", "false": "false", "unknown": "unknown"}
OPERATORS = frozenset((*SIMPLE, *FULL_TEXT, "in", "is", "not"))


@dataclass(frozen=True, slots=True)
class Filter:
    """One comparison; `argument` is a full-text configuration, or `any`/`all`."""

    field: Field
    operator: str
    value: str
    items: tuple[str, ...] = ()
    argument: str | None = None
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Tree:
    """Filters joined by `and` or `or`."""

    operator: str
    branches: tuple["Filter | Tree", ...]
    is_negated: bool = False


def is_filter(value: str) -> bool:
    """Whether a query parameter's value starts with an operator, and so is not a function argument."""
    head = value.split(".", 1)[0]
    return "." in value and head.split("(", 1)[0] in OPERATORS


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
    operator = scanner.until(".(")
    argument = _argument(scanner)
    if not scanner.skip(".") or not _is_known(operator, argument):
        scanner.position = start
        raise _unknown(scanner, operator, argument)
    if operator == "in":
        return Filter(field, operator, "", _list(scanner), None, is_negated)
    value = _value(scanner, is_nested=is_nested)
    if operator == "is":
        if value.lower() not in IS_VALUES:
            raise scanner.fail("isVal: (null, not_null, true, false, unknown)")
        value = value.lower()
    return Filter(field, operator, value, (), argument, is_negated)


def _argument(scanner: Scanner) -> str | None:
    if not scanner.skip("("):
        return None
    argument = scanner.until(")")
    scanner.need(")")
    return argument


def _is_known(operator: str, argument: str | None) -> bool:
    if operator in FULL_TEXT:
        return argument is None or argument.replace("_", "").isalnum()
    if argument is not None:
        return operator in QUANTIFIED and argument in ("any", "all")
    return operator in SIMPLE or operator in ("in", "is")


def _unknown(scanner: Scanner, operator: str, argument: str | None) -> Exception:
    shown = operator if argument is None else f"{operator}({argument})"
    place = f'"failed to parse filter ({scanner.text})" (line 1, column {scanner.position + 1})'
    return bad_query(place, f'unexpected "{shown}" expecting "not" or operator (eq, gt, ...)')


def _value(scanner: Scanner, *, is_nested: bool) -> str:
    if not is_nested:
        rest = scanner.text[scanner.position :]
        scanner.position = len(scanner.text)
        return rest
    return _element(scanner, with_arrays=True)


def _element(scanner: Scanner, *, with_arrays: bool = False) -> str:
    start = scanner.position
    if scanner.peek('"'):
        value = scanner.quoted()
        if scanner.at_end or scanner.text[scanner.position] in ",)":
            return value
        scanner.position = start
    if with_arrays and scanner.peek("{"):
        value = scanner.until("}")
        if scanner.skip("}"):
            return value + "}"
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
