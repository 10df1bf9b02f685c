"""The query language: its syntax is read, and nothing written in it can break the reader."""

from collections.abc import Callable
from functools import partial
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.rest.catalog import Table
from stack.rest.conditions import Conditions
from stack.rest.errors import RestError
from stack.rest.filtering import Filter, Tree, parse_filter, parse_tree
from stack.rest.query import parse_query
from stack.rest.scanner import Field
from stack.rest.selecting import parse_order, parse_select
from stack.rest.sqltext import Values, quoted

TABLE = Table("public", "t", {"a": "jsonb"})


def rendered(query: str) -> tuple[str, list[bytes | None]]:
    values = Values()
    return Conditions(TABLE, values).where(parse_query(query.encode()).filters), values.items


def refusal(work: Callable[[], object]) -> int | None:
    """The status of the error that something ends in, if it does; any other exception is a bug."""
    try:
        work()
    except RestError as error:
        return error.status
    return None


@pytest.mark.parametrize(
    ("query", "sql", "bound"),
    [
        ("a=eq.1", ' where ("t"."a" = $1)', [b"1"]),
        ("a=not.eq.1", ' where not ("t"."a" = $1)', [b"1"]),
        ("a=like.*b*", ' where ("t"."a" like $1)', [b"%b%"]),
        ("a=in.(1,%22x,y%22,)", ' where ("t"."a" = any($1))', [b'{"1","x,y",""}']),
        ("a=in.()", ' where ("t"."a" = any($1))', [b"{}"]),
        ("a=is.null&b=is.not_null", ' where ("t"."a" is null) and ("t"."b" is not null)', []),
        ("a->b->>0=eq.x", ' where (("t"."a" -> $1::text ->> $2::int) = $3)', [b"b", b"0", b"x"]),
        ("or=(a.eq.1,not.and(b.lt.2,c.is.true))", ' where (("t"."a" = $1) or not (("t"."b" < $2) and ("t"."c" is true)))', [b"1", b"2"]),
        ("not.or=(a.eq.1,b.eq.2)", ' where not (("t"."a" = $1) or ("t"."b" = $2))', [b"1", b"2"]),
        ("%22odd.name%22=eq.1", ' where ("t"."odd.name" = $1)', [b"1"]),
        ("a=eq.eq.1", ' where ("t"."a" = $1)', [b"eq.1"]),
        ("a=eq.", ' where ("t"."a" = $1)', [b""]),
    ],
)  # fmt: skip
def test_filters_become_conditions(query: str, sql: str, bound: list[bytes]) -> None:
    assert rendered(query) == (sql, bound)


def test_select_is_read_with_aliases_casts_and_paths() -> None:
    columns = parse_select('id, label:name::text, deep:meta->a->>"b c"')
    assert [(c.field.name, c.label, c.cast) for c in columns] == [
        ("id", "id", None),
        ("name", "label", "text"),
        ("meta", "deep", None),
    ]
    assert columns[2].field.path == (("->", "a"), ("->>", "b c"))


def test_a_path_is_labelled_by_its_last_key() -> None:
    columns = parse_select("meta->a->>b,meta->a->0,meta")
    assert [column.label for column in columns] == ["b", "a", "meta"]


def test_order_is_read_with_direction_and_nulls() -> None:
    assert [term.direction for term in parse_order("a,b.desc,c.asc.nullslast,d.nullsfirst")] == [
        "",
        " desc",
        " asc nulls last",
        " nulls first",
    ]


@given(st.text(max_size=80))
def test_no_text_breaks_the_readers(text: str) -> None:
    for read in (
        parse_select,
        parse_order,
        lambda t: parse_filter(Field("a"), t),
        lambda t: parse_tree("or", t, is_negated=False),
    ):
        assert refusal(partial(read, text)) in {None, 400, 501}


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=24), max_size=4))
def test_no_query_string_breaks_the_reader(pairs: dict[str, str]) -> None:
    raw = "&".join(
        f"{quote(key, errors='surrogatepass')}={quote(value, errors='surrogatepass')}" for key, value in pairs.items()
    )
    assert refusal(lambda: parse_query(raw.encode())) in {None, 400, 416, 501}


@given(st.text(min_size=1, max_size=40))
def test_a_value_never_reaches_the_sql_text(value: str) -> None:
    values = Values()
    tree = Tree("or", (Filter(Field("a"), "eq", value), Filter(Field("a"), "in", "", (value,))))
    conditions = Conditions(TABLE, values)
    if "\0" in value:
        assert refusal(lambda: conditions._branch(tree)) == 400
    else:
        assert conditions._branch(tree) == '(("t"."a" = $1) or ("t"."a" = any($2)))'


@given(st.text(alphabet=st.characters(exclude_characters="\0"), min_size=1, max_size=40))
def test_an_identifier_cannot_end_its_quotes(name: str) -> None:
    inner = quoted(name)[1:-1]
    assert '"' not in inner.replace('""', "")
    assert inner.replace('""', '"') == name
