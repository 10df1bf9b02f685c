"""The query language: its syntax is read, and nothing written in it can break the reader."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.rest.errors import RestError
from stack.rest.query import Filter, parse_query
from stack.rest.reading import Values, quoted, read_statement, where


def rendered(query: str) -> tuple[str, list[bytes | None]]:
    values = Values()
    return where('"t"', parse_query(query.encode()).filters, values), values.items


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
        ("a=like.b.*", ' where ("t"."a" like $1)', [b"b.%"]),
        ("a=ilike.*b*", ' where ("t"."a" ilike $1)', [b"%b%"]),
        ("a=imatch.*b", ' where ("t"."a" ~* $1)', [b"*b"]),
        ("a=in.(1,%22x,y%22,)", ' where ("t"."a" = any($1))', [b'{"1","x,y",""}']),
        ("a=in.(%22a\\%22b%22)", ' where ("t"."a" = any($1))', [b'{"a\\"b"}']),
        ("a=in.()", ' where ("t"."a" = any($1))', [b"{}"]),
        ("a=is.null&b=is.not_null", ' where ("t"."a" is null) and ("t"."b" is not null)', []),
        ("or=(a.eq.1,b.not.lt.2)&d=gt.3", ' where (("t"."a" = $1) or not ("t"."b" < $2)) and ("t"."d" > $3)', [b"1", b"2", b"3"]),
        ("or=(a.in.(1,2),b.eq.%22x,y%22)", ' where (("t"."a" = any($1)) or ("t"."b" = $2))', [b'{"1","2"}', b"x,y"]),
        ("and=(a.gte.1,a.lte.2)&b=eq.3", ' where ("t"."a" >= $1) and ("t"."a" <= $2) and ("t"."b" = $3)', [b"1", b"2", b"3"]),
        ("a=eq.%22x%22", ' where ("t"."a" = $1)', [b'"x"']),
        ("a=eq.eq.1", ' where ("t"."a" = $1)', [b"eq.1"]),
        ("a=eq.", ' where ("t"."a" = $1)', [b""]),
    ],
)  # fmt: skip
def test_filters_become_conditions(query: str, sql: str, bound: list[bytes]) -> None:
    assert rendered(query) == (sql, bound)


def test_columns_order_and_page_become_a_statement() -> None:
    query = parse_query(b"select=id,%20name&order=name.desc.nullslast,id&limit=5&offset=2")
    text, values = read_statement("public", "t", query, 1000, is_counted=True)
    source = 'from "public"."t" as "t"'
    page = ' order by "t"."name" desc nulls last, "t"."id" limit $1::bigint offset $2::bigint'
    assert f'(select "t"."id", "t"."name" {source}{page})' in text
    assert f"(select count(*) {source}) as total" in text
    assert values == [b"5", b"2"]


def test_a_value_within_json_is_selected_by_a_name() -> None:
    text, _ = read_statement(
        "public", "t", parse_query(b"select=id,is_test:body->options->x,body->y"), None, is_counted=False
    )
    wanted = """select "t"."id", "t"."body"->'options'->'x' as "is_test", "t"."body"->'y' as "y" from"""
    assert wanted in text


def test_order_is_read_with_direction_and_nulls() -> None:
    assert [direction for _, direction in parse_query(b"order=a,b.desc,c.asc.nullslast,d.nullsfirst").order] == [
        "",
        " desc",
        " asc nulls last",
        " nulls first",
    ]


@given(st.sampled_from(("select", "order", "or", "and", "limit", "a")), st.text(max_size=80))
def test_no_text_breaks_the_readers(key: str, text: str) -> None:
    raw = f"{key}={quote(text, errors='surrogatepass')}".encode()
    assert refusal(lambda: parse_query(raw)) in {None, 400, 416, 501}


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=24), max_size=4))
def test_no_query_string_breaks_the_reader(pairs: dict[str, str]) -> None:
    raw = "&".join(
        f"{quote(key, errors='surrogatepass')}={quote(value, errors='surrogatepass')}" for key, value in pairs.items()
    )
    assert refusal(lambda: parse_query(raw.encode())) in {None, 400, 416, 501}


@given(st.text(min_size=1, max_size=40))
def test_a_value_never_reaches_the_sql_text(value: str) -> None:
    either = (Filter("a", "eq", value), Filter("a", "in", "", (value,)))
    if "\0" in value:
        assert refusal(lambda: where('"t"', [either], Values())) == 400
    else:
        assert where('"t"', [either], Values()) == ' where (("t"."a" = $1) or ("t"."a" = any($2)))'


@given(st.text(alphabet=st.characters(exclude_characters="\0"), min_size=1, max_size=40))
def test_an_identifier_cannot_end_its_quotes(name: str) -> None:
    inner = quoted(name)[1:-1]
    assert '"' not in inner.replace('""', "")
    assert inner.replace('""', '"') == name
