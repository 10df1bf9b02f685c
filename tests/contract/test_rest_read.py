"""Reading tables with the real client: columns, filters, order, pages, counts."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from postgrest import APIError, CountMethod

from tests.contract.conftest import Api

Places = dict[str, uuid.UUID]
CUSCO = 'Cusco, "Peru"'


def names(response: Any) -> list[str]:
    return [row["name"] for row in response.data]


@pytest.mark.parametrize(
    ("narrow", "expected"),
    [
        (lambda q: q.eq("name", "Aarhus"), ["Aarhus"]),
        (lambda q: q.neq("name", "Aarhus"), ["Bergen", CUSCO]),
        (lambda q: q.gt("score", 1.5), ["Bergen"]),
        (lambda q: q.gte("score", 1.5), ["Aarhus", "Bergen"]),
        (lambda q: q.lt("score", 2), ["Aarhus"]),
        (lambda q: q.lte("score", 2), ["Aarhus", "Bergen"]),
        (lambda q: q.ilike("name", "a%"), ["Aarhus"]),
        (lambda q: q.like("name", "a%"), []),
        (lambda q: q.like("name", "A%"), ["Aarhus"]),
        (lambda q: q.ilike("name", "B*N"), ["Bergen"]),
        (lambda q: q.is_("score", "null"), [CUSCO]),
        (lambda q: q.is_("is_open", True), ["Aarhus"]),
        (lambda q: q.not_.is_("score", "null"), ["Aarhus", "Bergen"]),
        (lambda q: q.in_("name", ["Aarhus", CUSCO]), ["Aarhus", CUSCO]),
        (lambda q: q.in_("name", []), []),
        (lambda q: q.not_.in_("name", ["Aarhus"]), ["Bergen", CUSCO]),
        (lambda q: q.filter("name", "imatch", "^a"), ["Aarhus"]),
        (lambda q: q.or_("name.eq.Aarhus,score.eq.2"), ["Aarhus", "Bergen"]),
        (lambda q: q.or_('name.eq."Cusco, \\"Peru\\"",is_open.is.true'), ["Aarhus", CUSCO]),
        (lambda q: q.or_("score.not.gt.1.8,name.in.(Bergen,Cusco)").lt("score", 9), ["Aarhus", "Bergen"]),
        (lambda q: q.match({"name": "Aarhus", "is_open": True}), ["Aarhus"]),
    ],
)
def test_filters_select_the_expected_rows(
    anon: Api, places: Places, narrow: Callable[[Any], Any], expected: list[str]
) -> None:
    assert names(narrow(anon.table("contract_places").select("name")).order("name").execute()) == expected


def test_values_look_as_postgrest_renders_them(anon: Api, places: Places) -> None:
    (row,) = anon.table("contract_places").select("*").eq("name", "Aarhus").execute().data
    assert row["created_at"] == "2026-01-02T03:04:05.678+00:00"
    assert row["score"] == 1.5
    assert row["span"] == "[1,5)"
    assert row["tags"] == ["coast", "jutland"]
    assert row["id"] == str(places["Aarhus"])


def test_order_limit_and_offset(anon: Api, places: Places) -> None:
    table = anon.table("contract_places")
    assert names(table.select("name").order("score", desc=True, nullsfirst=True).execute()) == [
        CUSCO,
        "Bergen",
        "Aarhus",
    ]
    assert names(table.select("name").order("score", desc=True, nullsfirst=False).execute()) == [
        "Bergen",
        "Aarhus",
        CUSCO,
    ]
    assert names(table.select("name").order("is_open").order("name", desc=True).limit(1).execute()) == ["Bergen"]
    assert names(table.select("name").order("name").range(1, 2).execute()) == ["Bergen", CUSCO]


def test_a_count_covers_all_pages(anon: Api, places: Places) -> None:
    found = anon.table("contract_places").select("name", count=CountMethod.exact).order("name").limit(1).execute()
    assert (names(found), found.count) == (["Aarhus"], 3)
    head = anon.table("contract_places").select("*", count=CountMethod.exact, head=True).gt("score", 0).execute()
    assert (head.data, head.count) == ([], 2)


def test_unknown_things_are_named(anon: Api, places: Places) -> None:
    with pytest.raises(APIError) as table:
        anon.table("contract_place").select("*").execute()
    assert table.value.code == "PGRST205"
    assert table.value.hint == "Perhaps you meant the table 'public.contract_places'"
    with pytest.raises(APIError) as column:
        anon.table("contract_places").select("nope").execute()
    assert column.value.code == "42703"
    with pytest.raises(APIError) as hidden:
        anon.schema("contract_hidden").table("secrets").select("*").execute()
    assert hidden.value.code == "PGRST106"
