"""The query language: its syntax is read, and nothing written in it can break the reader."""

from collections.abc import Callable
from functools import partial
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.rest.conditions import Conditions
from stack.rest.errors import RestError
from stack.rest.filtering import Filter, Tree, parse_filter, parse_tree
from stack.rest.prefer import parse_prefer
from stack.rest.query import parse_query
from stack.rest.scanner import Field
from stack.rest.selecting import parse_order, parse_select
from stack.rest.sqltext import Values, quoted


def rendered(query: str) -> tuple[str, list[bytes | None]]:
    values = Values()
    return Conditions("t", None, values).where(parse_query(query.encode()).root), values.items


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
        ("a=eq(any).%7B1,2%7D", ' where ("t"."a" = any($1))', [b"{1,2}"]),
        ("a->b->>0=eq.x", ' where (("t"."a" -> $1::text ->> $2::int) = $3)', [b"b", b"0", b"x"]),
        ("or=(a.eq.1,not.and(b.lt.2,c.is.true))", ' where (("t"."a" = $1) or not (("t"."b" < $2) and ("t"."c" is true)))', [b"1", b"2"]),
        ("not.or=(a.eq.1,b.eq.2)", ' where not (("t"."a" = $1) or ("t"."b" = $2))', [b"1", b"2"]),
        ("a=fts(english).cat", ' where (to_tsvector($1::regconfig, "t"."a") @@ to_tsquery($1::regconfig, $2))', [b"english", b"cat"]),
        ("%22odd.name%22=eq.1", ' where ("t"."odd.name" = $1)', [b"1"]),
        ("a=eq.eq.1", ' where ("t"."a" = $1)', [b"eq.1"]),
        ("a=eq.", ' where ("t"."a" = $1)', [b""]),
    ],
)  # fmt: skip
def test_filters_become_conditions(query: str, sql: str, bound: list[bytes]) -> None:
    assert rendered(query) == (sql, bound)


def test_select_is_read_with_aliases_casts_paths_and_embeds() -> None:
    columns, embeds = parse_select(
        'id, label:name::text, deep:meta->a->>"b c", x:orgs!fk!inner(*, role), ...places(city)'
    )
    assert [(c.field.name, c.label, c.cast) for c in columns] == [
        ("id", "id", None),
        ("name", "label", "text"),
        ("meta", "deep", None),
    ]
    assert columns[2].field.path == (("->", "a"), ("->>", "b c"))
    assert [(e.name, e.label, e.hint, e.is_inner, e.is_spread) for e in embeds] == [
        ("orgs", "x", "fk", True, False),
        ("places", "places", None, False, True),
    ]
    assert [c.field.name for c in embeds[0].columns] == ["*", "role"]


def test_a_path_is_labelled_by_its_last_key() -> None:
    columns, _ = parse_select("meta->a->>b,meta->a->0,meta")
    assert [column.label for column in columns] == ["b", "a", "meta"]


def test_order_is_read_with_direction_and_nulls() -> None:
    assert [term.direction for term in parse_order("a,b.desc,c.asc.nullslast,d.nullsfirst")] == [
        "",
        " desc",
        " asc nulls last",
        " nulls first",
    ]


def test_arguments_are_distinguished_from_filters() -> None:
    query = parse_query(b"p_name=eq&p_text=hello.world&id=gt.3&p_other=in", is_call=True)
    assert query.arguments == [("p_name", "eq"), ("p_text", "hello.world"), ("p_other", "in")]
    assert len(query.root.filters) == 1


def test_preferences_are_read() -> None:
    found = parse_prefer("return=representation,count=exact, resolution=merge-duplicates, nonsense")
    assert (found.returning, found.is_counted, found.resolution) == ("representation", True, "merge-duplicates")
    assert found.applied == "return=representation, count=exact, resolution=merge-duplicates"


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
    conditions = Conditions("t", None, values)
    if "\0" in value:
        assert refusal(lambda: conditions._branch(tree)) == 400
    else:
        assert conditions._branch(tree) == '(("t"."a" = $1) or ("t"."a" = any($2)))'


@given(st.text(alphabet=st.characters(exclude_characters="\0"), min_size=1, max_size=40))
def test_an_identifier_cannot_end_its_quotes(name: str) -> None:
    inner = quoted(name)[1:-1]
    assert '"' not in inner.replace('""', "")
    assert inner.replace('""', '"') == name
