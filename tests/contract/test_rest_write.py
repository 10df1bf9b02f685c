"""Changing tables with the real client: insert, upsert, update, delete, and the returned rows."""

import uuid

import httpx
import psycopg
import pytest
from postgrest import APIError, CountMethod, ReturnMethod

from tests.contract.conftest import Api

Places = dict[str, uuid.UUID]


def count(db: psycopg.Connection, where: str = "true") -> int:
    row = db.execute(f"select count(*) from public.contract_places where {where}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_insert_returns_the_row_with_its_defaults(anon: Api, places: Places) -> None:
    row = anon.table("contract_places").insert({"name": "Dover", "meta": {"a": [1, None]}}).execute().data[0]
    assert row["name"] == "Dover"
    assert row["meta"] == {"a": [1, None]}
    assert row["tags"] == []
    assert uuid.UUID(row["id"])


def test_insert_can_return_nothing(anon: Api, db: psycopg.Connection, places: Places) -> None:
    done = anon.table("contract_places").insert({"name": "Dover"}, returning=ReturnMethod.minimal).execute()
    assert done.data == []
    assert count(db, "name = 'Dover'") == 1


def test_insert_can_return_only_where_the_row_is(http: httpx.Client, places: Places) -> None:
    headers = {"prefer": "return=headers-only"}
    done = http.post("/rest/v1/contract_people", json={"name": "Cy"}, headers=headers)
    assert (done.status_code, done.content) == (201, b"")
    assert done.headers["location"].startswith("/contract_people?id=eq.")
    assert http.get(f"/rest/v1{done.headers['location']}").json()[0]["name"] == "Cy"


def test_bulk_insert_uses_defaults_for_missing_columns(anon: Api, places: Places) -> None:
    rows = [{"name": "Dover", "score": 3}, {"name": "Ely", "tags": ["fen"]}]
    made = anon.table("contract_places").insert(rows, default_to_null=False).execute().data
    assert [(row["score"], row["tags"]) for row in made] == [(3, []), (None, ["fen"])]
    assert made[0]["id"] != made[1]["id"]
    with pytest.raises(APIError) as refused:
        anon.table("contract_places").insert([{"name": "Fes", "tags": []}, {"name": "Gent"}]).execute()
    assert refused.value.code == "23502"


def test_bulk_insert_is_all_or_nothing(anon: Api, db: psycopg.Connection, places: Places) -> None:
    with pytest.raises(APIError) as refused:
        anon.table("contract_places").insert([{"name": "Dover"}, {"name": "Aarhus"}]).execute()
    assert refused.value.code == "23505"
    assert count(db) == 3


def test_an_empty_bulk_insert_changes_nothing(anon: Api, db: psycopg.Connection, places: Places) -> None:
    assert anon.table("contract_places").insert([]).execute().data == []
    assert count(db) == 3


def test_upsert_merges_into_existing_rows_or_ignores_them(anon: Api, places: Places) -> None:
    table = anon.table("contract_places")
    merged = table.upsert({"name": "Aarhus", "score": 7}, on_conflict="name").execute().data
    assert (merged[0]["id"], merged[0]["score"]) == (str(places["Aarhus"]), 7)
    left = table.upsert({"name": "Aarhus", "score": 9}, on_conflict="name", ignore_duplicates=True).execute().data
    assert left == []
    by_key = table.upsert({"id": str(places["Bergen"]), "name": "Bergen II"}).execute().data
    assert by_key[0]["name"] == "Bergen II"
    both = table.upsert([{"name": "Aarhus", "score": 1}, {"name": "Dover", "score": 2}], on_conflict="name").execute()
    assert [row["score"] for row in both.data] == [1, 2]


def test_update_changes_the_rows_the_filter_names(anon: Api, db: psycopg.Connection, places: Places) -> None:
    changed = anon.table("contract_places").update({"score": 5}, count=CountMethod.exact).gt("score", 0).execute()
    assert (len(changed.data), changed.count) == (2, 2)
    assert count(db, "score = 5") == 2
    nothing = anon.table("contract_places").update({"score": 6}).eq("name", "nowhere").execute()
    assert nothing.data == []
    same = anon.table("contract_places").update({"meta": {}}, returning=ReturnMethod.minimal).eq("name", "Aarhus")
    assert same.execute().data == []


def test_delete_removes_the_rows_the_filter_names(anon: Api, db: psycopg.Connection, places: Places) -> None:
    gone = anon.table("contract_places").delete().is_("score", "null").execute()
    assert len(gone.data) == 1
    assert count(db) == 2


def test_a_change_of_every_row_is_refused(http: httpx.Client, db: psycopg.Connection, places: Places) -> None:
    for done in (http.delete("/rest/v1/contract_places"), http.patch("/rest/v1/contract_places", json={"score": 1})):
        assert (done.status_code, done.json()["code"]) == (400, "21000")
    assert count(db) == 3


def test_columns_and_related_rows_can_be_chosen_for_the_answer(http: httpx.Client, places: Places) -> None:
    body = {"name": "Cy", "place_id": str(places["Bergen"])}
    chosen = {"select": "name,home:contract_places!place_id(name)"}
    headers = {"prefer": "return=representation", "accept": "application/vnd.pgrst.object+json"}
    made = http.post("/rest/v1/contract_people", params=chosen, json=body, headers=headers)
    assert made.json() == {"name": "Cy", "home": {"name": "Bergen"}}


def test_a_single_answer_that_is_not_single_undoes_the_change(
    http: httpx.Client, db: psycopg.Connection, places: Places
) -> None:
    headers = {"prefer": "return=representation", "accept": "application/vnd.pgrst.object+json"}
    done = http.patch("/rest/v1/contract_places?score=gt.0", json={"score": 99}, headers=headers)
    assert (done.status_code, done.json()["code"]) == (406, "PGRST116")
    assert count(db, "score = 99") == 0


def test_an_update_beyond_max_affected_is_undone(http: httpx.Client, db: psycopg.Connection, places: Places) -> None:
    headers = {"prefer": "handling=strict, max-affected=1"}
    done = http.patch("/rest/v1/contract_places?score=gt.0", json={"score": 99}, headers=headers)
    assert (done.status_code, done.json()["code"]) == (400, "PGRST124")
    assert count(db, "score = 99") == 0


def test_a_transaction_can_be_tried_and_undone(http: httpx.Client, db: psycopg.Connection, places: Places) -> None:
    headers = {"prefer": "tx=rollback, return=representation"}
    done = http.post("/rest/v1/contract_places", json={"name": "Dover"}, headers=headers)
    assert done.status_code == 201
    assert done.json()[0]["name"] == "Dover"
    assert count(db) == 3


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        ({"name": None}, "23502", 400),
        ({"name": "x", "score": "many"}, "22P02", 400),
        ({"name": "x", "nope": 1}, "PGRST204", 400),
        ({"name": "Aarhus"}, "23505", 409),
        ([{"name": "x"}, {"score": 1}], "PGRST102", 400),
        ([1, 2], "PGRST102", 400),
        ("text", "PGRST102", 400),
        (None, "PGRST102", 400),
    ],
)
def test_bad_rows_are_refused_in_postgrests_words(
    http: httpx.Client, places: Places, body: object, code: str, status: int
) -> None:
    done = http.post("/rest/v1/contract_places", json=body)
    assert (done.status_code, done.json()["code"]) == (status, code)
    assert set(done.json()) == {"code", "message", "details", "hint"}


def test_a_missing_reference_is_a_conflict(anon: Api, places: Places) -> None:
    with pytest.raises(APIError) as refused:
        anon.table("contract_people").insert({"name": "Cy", "place_id": str(uuid.uuid4())}).execute()
    assert refused.value.code == "23503"
    assert "contract_places" in str(refused.value.details)
