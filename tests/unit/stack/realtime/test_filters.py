import pytest

from stack.realtime.bindings import Binding, parse_binding
from stack.realtime.errors import BindingRefused

TABLE = {"schema": "x", "table": "t"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("id=eq.1", ("id", "1")),
        ("name=eq.=", ("name", "=")),
        ("name=eq.", ("name", "")),
        ("name=eq.a.b", ("name", "a.b")),
    ],
)
def test_filters_are_read(text: str, expected: tuple[str, str] | None) -> None:
    assert parse_binding({**TABLE, "filter": text}) == Binding("*", "x", "t", expected)


@pytest.mark.parametrize("text", ["undefined", "id=eq", "id=gt.1", "id=in.(1)", "id=eq.1,name=eq.2"])
def test_other_filters_are_refused(text: str) -> None:
    with pytest.raises(BindingRefused, match="Error parsing `filter` params"):
        parse_binding({**TABLE, "filter": text})


def test_an_unknown_event_means_all() -> None:
    assert parse_binding({**TABLE, "event": "insert"}).event == "INSERT"
    assert parse_binding({**TABLE, "event": "nonsense"}).event == "*"


@pytest.mark.parametrize("params", [{}, {"schema": 1}, {"table": "t"}, {"schema": "a"}, {"schema": "a", "table": "*"}])
def test_bindings_that_name_no_table_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(BindingRefused, match="name a `schema` and a `table`"):
        parse_binding(params)


def test_tokens_are_not_repeated_in_a_refusal() -> None:
    with pytest.raises(BindingRefused) as caught:
        parse_binding({"user_token": "secret"})
    assert "secret" not in str(caught.value)
