"""The filter language of postgres_changes: `column=op.value`, joined by commas."""

from dataclasses import dataclass

from stack.realtime.errors import BindingRefused

# Hosted's newest server knows more operators; these seven are the documented ones, and the portable ones.
OPERATORS = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">=", "in": "in"}


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition; for `in` the value is an array literal."""

    column: str
    operator: str
    value: str

    def described(self) -> str:
        """As hosted prints it in an error."""
        return f'{{"{self.column}", "{self.operator}", "{self.value}", false}}'


def parse_filters(text: str) -> tuple[Filter, ...]:
    """Read a filter string; all of its conditions must hold."""
    trimmed = text.strip()
    if not trimmed:
        return ()
    return tuple(_parse_segment(segment.strip()) for segment in _split_top_level(trimmed))


def _split_top_level(text: str) -> list[str]:
    """Cut at commas outside parentheses and quotes; a quote opens only where a value may begin."""
    segments, current, depth, is_quoted, previous = [], "", 0, False, ""
    position = 0
    while position < len(text):
        char = text[position]
        if is_quoted and char == "\\" and position + 1 < len(text):
            current += text[position : position + 2]
            previous, position = text[position + 1], position + 2
            continue
        if char == "," and depth == 0 and not is_quoted:
            segments.append(current)
            current, previous, position = "", "", position + 1
            continue
        depth, is_quoted = _scan(char, previous, depth, is_quoted)
        current, previous, position = current + char, char, position + 1
    return [*segments, current]


def _scan(char: str, previous: str, depth: int, is_quoted: bool) -> tuple[int, bool]:
    if is_quoted:
        return depth, char != '"'
    if char == '"' and previous in (".", "(", ","):
        return depth, True
    if char == "(":
        return depth + 1, False
    if char == ")":
        return max(0, depth - 1), False
    return depth, False


def _parse_segment(segment: str) -> Filter:
    if not segment:
        raise _refused("filter must not contain empty segments (check for extra commas)")
    column, equals, rest = segment.partition("=")
    if not equals:
        raise _refused(_listed(segment))
    operator, dot, value = rest.partition(".")
    if not dot:
        raise _refused(_listed(rest))
    if operator not in OPERATORS:
        raise _refused(_listed(operator, value))
    return Filter(column, operator, _array_literal(value) if operator == "in" else _unquoted(value))


def _array_literal(value: str) -> str:
    if not (value.startswith("(") and value.endswith(")") and len(value) >= 2):
        raise _refused("`in` filter value must be wrapped by parentheses")
    return "{" + value[1:-1] + "}"


def _unquoted(value: str) -> str:
    """A value in double quotes loses them; one that is not closed properly stays as it is."""
    if not value.startswith('"'):
        return value
    result, position = "", 1
    while position < len(value):
        char = value[position]
        if char == '"':
            return result if position == len(value) - 1 else value
        if char == "\\" and position + 1 < len(value):
            position += 1
        result += value[position]
        position += 1
    return value


def _listed(*parts: str) -> str:
    return "[" + ", ".join(f'"{part}"' for part in parts) + "]"


def _refused(detail: str) -> BindingRefused:
    return BindingRefused(f"Error parsing `filter` params: {detail}")
