import pytest

from stack.realtime.bindings import parse_binding
from stack.realtime.errors import BindingRefused
from stack.realtime.filters import Filter, parse_filters


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("   ", []),
        ("id=eq.1", [("id", "eq", "1")]),
        (" id=eq.1 , name=neq.a.b ", [("id", "eq", "1"), ("name", "neq", "a.b")]),
        ("id=in.(1,2)", [("id", "in", "{1,2}")]),
        ('name=in.("a,b",c),id=gt.1', [("name", "in", '{"a,b",c}'), ("id", "gt", "1")]),
        ('name=eq."a,b"', [("name", "eq", "a,b")]),
        ('name=eq."say \\"x\\", (y)"', [("name", "eq", 'say "x", (y)')]),
        ('name=eq."open', [("name", "eq", '"open')]),
        ("name=eq.=", [("name", "eq", "=")]),
        ("name=eq.", [("name", "eq", "")]),
        ("f(x=eq.1)", [("f(x", "eq", "1)")]),
    ],
)
def test_filters_are_read(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert parse_filters(text) == tuple(Filter(*item) for item in expected)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("undefined", '["undefined"]'),
        ("id=eq", '["eq"]'),
        ("id=foo.1", '["foo", "1"]'),
        ("id=not.eq.1", '["not", "eq.1"]'),
        ("id=in.1", "`in` filter value must be wrapped by parentheses"),
        ("id=eq.1,,id=eq.2", "filter must not contain empty segments (check for extra commas)"),
    ],
)
def test_filters_are_refused_in_hosted_words(text: str, detail: str) -> None:
    with pytest.raises(BindingRefused) as caught:
        parse_filters(text)
    assert str(caught.value) == f"Error parsing `filter` params: {detail}"


def test_bindings_have_hosted_defaults() -> None:
    only_schema, only_table = parse_binding({"schema": "x"}), parse_binding({"table": "t", "event": "insert"})
    assert (only_schema.event, only_schema.schema, only_schema.table) == ("*", "x", "*")
    assert (only_table.event, only_table.schema, only_table.table) == ("INSERT", "public", "t")
    assert parse_binding({"schema": "x", "event": "nonsense"}).event == "*"
    assert parse_binding({"schema": "x", "table": "t", "select": ["a", 1, "b"]}).select == ("a", "b")


def test_a_wildcard_covers_every_table() -> None:
    everything = parse_binding({"schema": "*", "table": "*"})
    assert everything.covers("a", "b")
    assert not parse_binding({"schema": "a", "table": "b"}).covers("a", "c")


@pytest.mark.parametrize(
    "params", [{}, {"schema": 1}, {"table": "t", "filter": "id=eq.1"}, {"schema": "a", "table": 7}]
)
def test_bindings_that_name_nothing_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(BindingRefused, match="No subscription params provided"):
        parse_binding(params)


def test_tokens_are_not_repeated_in_a_refusal() -> None:
    with pytest.raises(BindingRefused) as caught:
        parse_binding({"user_token": "secret"})
    assert "secret" not in str(caught.value)
