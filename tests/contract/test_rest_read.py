"""Reading tables with the real client: columns, filters, order, pages, counts, embedding."""

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
        (lambda q: q.like("name", "%er%"), ["Bergen", CUSCO]),
        (lambda q: q.like("name", "B*n"), ["Bergen"]),
        (lambda q: q.ilike("name", "a%"), ["Aarhus"]),
        (lambda q: q.like_any_of("name", "A%,B%"), ["Aarhus", "Bergen"]),
        (lambda q: q.like_all_of("name", "%er%,B%"), ["Bergen"]),
        (lambda q: q.ilike_any_of("name", "a%,b%"), ["Aarhus", "Bergen"]),
        (lambda q: q.is_("score", "null"), [CUSCO]),
        (lambda q: q.is_("is_open", True), ["Aarhus"]),
        (lambda q: q.not_.is_("score", "null"), ["Aarhus", "Bergen"]),
        (lambda q: q.filter("is_open", "isdistinct", "true"), ["Bergen", CUSCO]),
        (lambda q: q.in_("name", ["Aarhus", CUSCO]), ["Aarhus", CUSCO]),
        (lambda q: q.in_("name", []), []),
        (lambda q: q.not_.in_("name", ["Aarhus"]), ["Bergen", CUSCO]),
        (lambda q: q.contains("tags", ["coast"]), ["Aarhus", "Bergen"]),
        (lambda q: q.contains("meta", {"size": {"big": True}}), ["Aarhus"]),
        (lambda q: q.contained_by("tags", ["coast", "north"]), ["Bergen", CUSCO]),
        (lambda q: q.overlaps("tags", ["jutland", "north"]), ["Aarhus"]),
        (lambda q: q.range_gt("span", (1, 4)), ["Bergen"]),
        (lambda q: q.range_gte("span", (2, 9)), ["Bergen"]),
        (lambda q: q.range_lt("span", (5, 9)), ["Aarhus"]),
        (lambda q: q.range_lte("span", (1, 6)), ["Aarhus"]),
        (lambda q: q.range_adjacent("span", (8, 12)), ["Bergen"]),
        (lambda q: q.filter("name", "match", "^[AB]"), ["Aarhus", "Bergen"]),
        (lambda q: q.filter("name", "imatch", "^a"), ["Aarhus"]),
        (lambda q: q.filter("name", "eq(any)", '{"Aarhus","Bergen"}'), ["Aarhus", "Bergen"]),
        (lambda q: q.filter("score", "gte(all)", "{1,2}"), ["Bergen"]),
        (lambda q: q.fts("name", "Aarhus"), ["Aarhus"]),
        (lambda q: q.plfts("name", "Bergen"), ["Bergen"]),
        (lambda q: q.phfts("name", "Cusco Peru"), [CUSCO]),
        (lambda q: q.wfts("name", "Aarhus or Bergen"), ["Aarhus", "Bergen"]),
        (lambda q: q.text_search("name", "Aarhus", {"config": "simple", "type": "plain"}), ["Aarhus"]),
        (lambda q: q.eq("meta->size->>area", "91"), ["Aarhus"]),
        (lambda q: q.eq("meta->names->>1", "b"), ["Aarhus"]),
        (lambda q: q.eq("meta->size->area", 465), ["Bergen"]),
        (lambda q: q.eq("odd name", "x y"), ["Aarhus"]),
        (lambda q: q.or_("name.eq.Aarhus,score.eq.2"), ["Aarhus", "Bergen"]),
        (lambda q: q.or_('name.eq."Cusco, \\"Peru\\"",and(score.gt.1,score.lt.2)'), ["Aarhus", CUSCO]),
        (lambda q: q.or_("not.and(score.gt.1,score.lt.2),name.eq.Aarhus").lt("score", 9), ["Aarhus", "Bergen"]),
        (lambda q: q.or_("tags.cs.{coast,jutland},name.in.(Bergen,x)"), ["Aarhus", "Bergen"]),
        (lambda q: q.match({"name": "Aarhus", "is_open": True}), ["Aarhus"]),
    ],
)
def test_filters_select_the_expected_rows(
    anon: Api, places: Places, narrow: Callable[[Any], Any], expected: list[str]
) -> None:
    assert names(narrow(anon.table("contract_places").select("name")).order("name").execute()) == expected


def test_values_look_as_postgrest_renders_them(anon: Api, places: Places) -> None:
    row = anon.table("contract_places").select("*").eq("name", "Aarhus").single().execute().data
    assert row["created_at"] == "2026-01-02T03:04:05.678+00:00"
    assert row["score"] == 1.5
    assert row["span"] == "[1,5)"
    assert row["tags"] == ["coast", "jutland"]
    assert row["id"] == str(places["Aarhus"])


def test_columns_can_be_renamed_cast_and_pointed_into(anon: Api, places: Places) -> None:
    chosen = 'label:name,score::text,area:meta->size->area,meta->size->>big,first:meta->names->>0,"odd name"'
    row = anon.table("contract_places").select(chosen).eq("name", "Aarhus").single().execute().data
    assert row == {"label": "Aarhus", "score": "1.5", "area": 91, "big": "true", "first": "a", "odd name": "x y"}


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


def test_single_insists_on_one_row(anon: Api, places: Places) -> None:
    table = anon.table("contract_places")
    with pytest.raises(APIError) as refused:
        table.select("*").single().execute()
    assert (refused.value.code, refused.value.details) == ("PGRST116", "The result contains 3 rows")
    assert table.select("*").eq("name", "nowhere").maybe_single().execute() is None
    found = table.select("name").eq("name", "Aarhus").maybe_single().execute()
    assert found is not None
    assert found.data == {"name": "Aarhus"}


def test_a_row_carries_the_one_it_refers_to(anon: Api, places: Places) -> None:
    chosen = "name,home:contract_places!contract_people_place_id_fkey(name),born:contract_places!birth_place_id(name)"
    rows = anon.table("contract_people").select(chosen).order("name").execute().data
    assert rows == [
        {"name": "Ada", "home": {"name": "Aarhus"}, "born": {"name": "Bergen"}},
        {"name": "Bo", "home": {"name": "Aarhus"}, "born": None},
    ]


def test_a_row_carries_those_that_refer_to_it(anon: Api, places: Places) -> None:
    chosen = "name,people:contract_people!place_id(name,role)"
    table = anon.table("contract_places").select(chosen).order("name")
    rows = table.order("name", desc=True, foreign_table="people").limit(1, foreign_table="people").execute().data
    assert rows == [
        {"name": "Aarhus", "people": [{"name": "Bo", "role": "viewer"}]},
        {"name": "Bergen", "people": []},
        {"name": CUSCO, "people": []},
    ]


def test_embedding_can_narrow_the_rows(anon: Api, places: Places) -> None:
    chosen = "name,people:contract_people!place_id!inner(name)"
    found = anon.table("contract_places").select(chosen, count=CountMethod.exact).eq("people.name", "Ada").execute()
    assert found.data == [{"name": "Aarhus", "people": [{"name": "Ada"}]}]
    assert found.count == 1
    loose = anon.table("contract_places").select("name,people:contract_people!place_id(name)").eq("people.name", "Ada")
    assert len(loose.execute().data) == 3


def test_embedding_can_be_spread_into_the_row(anon: Api, places: Places) -> None:
    chosen = "name,...contract_places!place_id(place:name,score)"
    row = anon.table("contract_people").select(chosen).eq("name", "Ada").single().execute().data
    assert row == {"name": "Ada", "place": "Aarhus", "score": 1.5}


def test_an_ambiguous_or_missing_relation_is_named(anon: Api, places: Places) -> None:
    with pytest.raises(APIError) as ambiguous:
        anon.table("contract_people").select("*,contract_places(*)").execute()
    assert ambiguous.value.code == "PGRST201"
    with pytest.raises(APIError) as missing:
        anon.table("contract_people").select("*,contract_locked(*)").execute()
    assert missing.value.code == "PGRST200"
    with pytest.raises(APIError) as foreign:
        anon.table("contract_people").select("*").eq("contract_notes.body", "x").execute()
    assert foreign.value.code == "PGRST108"


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
