"""Calling functions with the real client: every kind of argument and result."""

import uuid

import httpx
import psycopg
import pytest
from postgrest import APIError, CountMethod

from tests.contract.conftest import Api
from tests.support.stack import Project

Places = dict[str, uuid.UUID]


def test_arguments_are_named_and_may_be_left_out(anon: Api) -> None:
    assert anon.rpc("contract_add", {"p_a": 1, "p_b": 2}).execute().data == 3
    assert anon.rpc("contract_add", {"p_a": 1}).execute().data == 11
    assert anon.rpc("contract_add", {"p_a": 5}, get=True).execute().data == 15


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, None, {"b": "ü \U0001f600"}]}, [1, 2], "text", 7, True, {"deep": {"er": []}}]
)
def test_json_is_returned_as_it_was_sent(anon: Api, value: object) -> None:
    assert anon.rpc("contract_echo", {"p_value": value}).execute().data == value


def test_null_is_null(http: httpx.Client) -> None:
    assert http.post("/rest/v1/rpc/contract_echo", json={"p_value": None}).json() is None


def test_an_unnamed_json_argument_gets_the_whole_body(http: httpx.Client) -> None:
    assert http.post("/rest/v1/rpc/contract_body", json={"any": ["thing"]}).json() == {"any": ["thing"]}
    assert http.post("/rest/v1/rpc/contract_body", json=[1, 2]).json() == [1, 2]


def test_sets_rows_tables_and_scalars(anon: Api, places: Places) -> None:
    named = anon.rpc("contract_places_named", {"p_name": "%er%"}).execute().data
    assert [row["name"] for row in named] == ["Bergen", 'Cusco, "Peru"']
    assert anon.rpc("contract_one_place", {"p_name": "Bergen"}).execute().data["score"] == 2
    assert anon.rpc("contract_table", {"p_n": 2}).execute().data == [{"n": 1, "square": 1}, {"n": 2, "square": 4}]
    assert anon.rpc("contract_numbers", {"p_n": 3}).execute().data == [1, 2, 3]
    assert anon.rpc("contract_numbers", {"p_n": 0}).execute().data == []


def test_results_can_be_narrowed_like_a_table(anon: Api, places: Places) -> None:
    call = anon.rpc("contract_places_named", {"p_name": "%"})
    found = call.select("name").gt("score", 1).order("name", desc=True).limit(1).execute()
    assert found.data == [{"name": "Bergen"}]
    counted = anon.rpc("contract_table", {"p_n": 9}, count=CountMethod.exact).gte("n", 4).limit(2).execute()
    assert (len(counted.data), counted.count) == (2, 6)
    one = anon.rpc("contract_places_named", {"p_name": "Aar%"}).single().execute()
    assert one.data["name"] == "Aarhus"


def test_void_has_no_content(http: httpx.Client) -> None:
    done = http.post("/rest/v1/rpc/contract_void", json={})
    assert (done.status_code, done.content) == (204, b"")


def test_variadic_arguments_come_as_an_array_or_repeated(http: httpx.Client) -> None:
    assert http.post("/rest/v1/rpc/contract_join", json={"p_words": ["a", "b"]}).json() == "a-b"
    assert http.get("/rest/v1/rpc/contract_join?p_words=a&p_words=b").json() == "a-b"


def test_a_function_that_writes_cannot_be_called_with_get(anon: Api, db: psycopg.Connection, places: Places) -> None:
    with pytest.raises(APIError) as refused:
        anon.rpc("contract_write", {"p_name": "Dover"}, get=True).execute()
    assert refused.value.code == "25006"
    assert uuid.UUID(anon.rpc("contract_write", {"p_name": "Dover"}).execute().data)
    assert db.execute("select from public.contract_places where name = 'Dover'").fetchone() is not None


def test_head_runs_the_function_and_returns_no_body(http: httpx.Client) -> None:
    done = http.head("/rest/v1/rpc/contract_add?p_a=1")
    assert (done.status_code, done.content) == (200, b"")
    assert http.head("/rest/v1/rpc/contract_write?p_name=x").status_code == 405


def test_unknown_functions_are_named_and_likely_ones_suggested(anon: Api) -> None:
    with pytest.raises(APIError) as unknown:
        anon.rpc("contract_ad", {"p_a": 1}).execute()
    assert unknown.value.code == "PGRST202"
    assert unknown.value.hint == "Perhaps you meant to call the function public.contract_add"
    with pytest.raises(APIError) as arguments:
        anon.rpc("contract_add", {"p_a": 1, "p_c": 2}).execute()
    assert arguments.value.code == "PGRST202"
    assert arguments.value.message == "Could not find the function public.contract_add(p_a, p_c) in the schema cache"
    with pytest.raises(APIError) as nothing:
        anon.rpc("contract_add").execute()
    assert "without parameters" in str(nothing.value.message)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("P0001", 400), ("PT402", 402), ("RY409", 400), ("42501", 401), ("42883", 404), ("42P01", 404),
        ("23503", 409), ("23505", 409), ("25006", 405), ("28000", 403), ("0L000", 403), ("0P000", 403),
        ("53100", 503), ("53400", 500), ("40001", 500), ("54000", 500), ("57014", 500), ("58000", 500),
        ("P0002", 500), ("XX000", 500), ("42P17", 500), ("22012", 400), ("21000", 500), ("38000", 500), ("22023", 400),
    ],
)  # fmt: skip
def test_every_sqlstate_has_its_status(http: httpx.Client, code: str, status: int) -> None:
    done = http.post("/rest/v1/rpc/contract_fail", json={"p_code": code})
    expected = {"code": code, "message": "as asked", "details": "the detail", "hint": "the hint"}
    assert (done.status_code, done.json()) == (status, expected)


def test_lack_of_rights_is_forbidden_for_those_signed_in(http: httpx.Client, project: Project) -> None:
    headers = {"apikey": project.secret_key}
    done = http.post("/rest/v1/rpc/contract_fail", json={"p_code": "42501"}, headers=headers)
    assert done.status_code == 403


def test_a_function_may_form_the_whole_answer(http: httpx.Client) -> None:
    done = http.post("/rest/v1/rpc/contract_raise_pgrst", json={})
    assert (done.status_code, done.headers["x-tea"]) == (418, "green")
    assert done.json() == {"code": "TEA", "message": "I am a teapot", "details": "short", "hint": "stout"}
    own = http.post("/rest/v1/rpc/contract_headers", json={})
    assert (own.status_code, own.headers["x-contract"], own.json()) == (202, "yes", "set")


def test_functions_can_read_the_role_path_and_headers_of_their_request(http: httpx.Client) -> None:
    told = http.get("/rest/v1/rpc/contract_request", headers={"x-trace": "abc"}).json()
    assert (told["role"], told["method"], told["path"]) == ("anon", "GET", "/rpc/contract_request")
    assert told["claims"]["role"] == "anon"
    assert told["headers"]["x-trace"] == "abc"
    assert told["timeout"] == "3s"


def test_a_long_statement_is_stopped(http: httpx.Client) -> None:
    done = http.post("/rest/v1/rpc/contract_sleep", json={"p_seconds": 30})
    assert (done.status_code, done.json()["code"]) == (500, "57014")
