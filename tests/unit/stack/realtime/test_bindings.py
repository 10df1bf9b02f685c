from typing import Any

import pytest

from stack.realtime.errors import BindingRefused
from stack.realtime.subscriptions import Binding, parse_binding

TABLE = {"schema": "public", "table": "t"}


@pytest.mark.parametrize(
    ("more", "event", "wanted"),
    [
        ({}, "*", None),
        ({"event": "insert", "filter": ""}, "INSERT", None),
        ({"event": "nonsense", "filter": "id=eq.2"}, "*", ("id", "2")),
        ({"event": "*", "filter": "name=eq.a=eq.b,c"}, "*", ("name", "a=eq.b,c")),
    ],
)
def test_an_entry_names_a_table_an_event_and_a_value(
    more: dict[str, Any], event: str, wanted: tuple[str, str] | None
) -> None:
    assert parse_binding(TABLE | more) == Binding(event, "public", "t", wanted)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "one table"),
        ({"schema": "public"}, "one table"),
        ({"schema": "public", "table": "*"}, "one table"),
        ({"schema": 1, "table": "t"}, "one table"),
        (TABLE | {"select": ["a"]}, "leave out `select`"),
        (TABLE | {"filter": "id=gt.1"}, "column=eq.value alone"),
        (TABLE | {"filter": "id=in.(1,2)"}, "column=eq.value alone"),
        (TABLE | {"filter": 7}, "column=eq.value alone"),
    ],
)
def test_what_the_product_does_not_listen_to_is_refused_by_name(params: dict[str, Any], words: str) -> None:
    with pytest.raises(BindingRefused, match=words.replace("*", r"\*")):
        parse_binding(params)
