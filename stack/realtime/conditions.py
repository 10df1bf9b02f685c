"""Filters made ready for one table: decided here where that is exact, by PostgreSQL where it is not."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from stack.realtime.catalog import Column
from stack.realtime.errors import BindingRefused
from stack.realtime.filters import OPERATORS, Filter

MAX_IN_VALUES = 100
INTEGERS = frozenset({"int2", "int4", "int8", "oid"})
# Types whose canonical text compares as the value does: for equality only, and for order too.
EQUAL_AS_TEXT = frozenset({"text", "varchar", "date", "timestamp", "timestamptz"})
ORDERED_AS_TEXT = frozenset({"uuid", "bool"})
EQUALITY = frozenset({"eq", "neq", "in"})

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda left, right: left == right,
    "neq": lambda left, right: left != right,
    "lt": lambda left, right: left < right,
    "lte": lambda left, right: left <= right,
    "gt": lambda left, right: left > right,
    "gte": lambda left, right: left >= right,
    "in": lambda left, right: left in right,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One filter with its value in canonical form."""

    column: str
    operator: str
    operand: str | tuple[str, ...]
    sql_type: str
    parse: Callable[[str], Any] | None

    def decide(self, text: str) -> bool | None:
        """Whether a value passes; None where only PostgreSQL can tell."""
        if self.parse is None:
            return None
        operand: Any = self.operand
        right = tuple(map(self.parse, operand)) if self.operator == "in" else self.parse(operand)
        try:
            return COMPARE[self.operator](self.parse(text), right)
        except ValueError:  # the column has got another type since
            return False


async def compile_condition(connection: AsyncConnection, column: Column, item: Filter) -> Condition:
    """Let PostgreSQL read the filter's value as the column's type; a value it refuses raises its error."""
    kind = sql.SQL(column.sql_type)
    if item.operator == "in":
        query = sql.SQL("select array(select v::text from unnest(%s::text::{}[]) v where v is not null)").format(kind)
    else:
        query = sql.SQL("select (%s::text::{})::text").format(kind)
    row = await (await connection.execute(query, [item.value])).fetchone()
    assert row is not None
    operand = tuple(row[0]) if item.operator == "in" else row[0]
    if len(operand) > MAX_IN_VALUES and item.operator == "in":
        raise BindingRefused(f"too many values for `in` filter. Maximum {MAX_IN_VALUES}")
    return Condition(item.column, item.operator, operand, column.sql_type, _parser(column, item.operator))


def _parser(column: Column, operator: str) -> Callable[[str], Any] | None:
    if column.base_type in INTEGERS:
        return int
    if column.base_type in ORDERED_AS_TEXT:
        return str
    if operator in EQUALITY and (column.base_type in EQUAL_AS_TEXT or column.is_enum):
        return str
    return None


Question = tuple[Condition, str]


async def ask_database(connection: AsyncConnection, questions: Iterable[Question]) -> dict[Question, bool]:
    """Decide comparisons that depend on PostgreSQL's own operators, all in one statement."""
    asked = list(dict.fromkeys(questions))
    if not asked:
        return {}
    try:
        return await _ask(connection, asked)
    except (psycopg.DataError, psycopg.ProgrammingError):
        # A column has got another type since: only the filters on it fail.
        return {question: await _ask_alone(connection, question) for question in asked}


async def _ask_alone(connection: AsyncConnection, question: Question) -> bool:
    try:
        return (await _ask(connection, [question]))[question]
    except (psycopg.DataError, psycopg.ProgrammingError):
        return False


async def _ask(connection: AsyncConnection, questions: list[Question]) -> dict[Question, bool]:
    parameters: list[Any] = []
    for condition, text in questions:
        parameters += [text, list(condition.operand) if condition.operator == "in" else condition.operand]
    query = sql.SQL("select {}").format(sql.SQL(", ").join(_comparison(condition) for condition, _ in questions))
    row = await (await connection.execute(query, parameters)).fetchone()
    assert row is not None
    return dict(zip(questions, (bool(answer) for answer in row), strict=True))


def _comparison(condition: Condition) -> sql.Composable:
    kind = sql.SQL(condition.sql_type)
    if condition.operator == "in":
        return sql.SQL("%s::text::{kind} = any(%s::text[]::{kind}[])").format(kind=kind)
    operator = sql.SQL(OPERATORS[condition.operator])
    return sql.SQL("%s::text::{kind} {operator} %s::text::{kind}").format(kind=kind, operator=operator)
