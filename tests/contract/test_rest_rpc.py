"""Calling functions with the real client: every kind of argument and result."""

import httpx
import pytest
from postgrest import APIError

from tests.contract.conftest import Api
from tests.support.stack import Project


def test_arguments_are_named_and_may_be_left_out(anon: Api) -> None:
    assert anon.rpc("contract_add", {"p_a": 1, "p_b": 2}).execute().data == 3
    assert anon.rpc("contract_add", {"p_a": 1}).execute().data == 11


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, None, {"b": "ü \U0001f600"}]}, [1, 2], "text", 7, True, {"deep": {"er": []}}]
)
def test_json_is_returned_as_it_was_sent(anon: Api, value: object) -> None:
    assert anon.rpc("contract_echo", {"p_value": value}).execute().data == value


def test_null_is_null(http: httpx.Client) -> None:
    assert http.post("/rest/v1/rpc/contract_echo", json={"p_value": None}).json() is None


def test_void_has_no_content(http: httpx.Client) -> None:
    done = http.post("/rest/v1/rpc/contract_void", json={})
    assert (done.status_code, done.content) == (204, b"")


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


def test_a_function_may_form_the_whole_answer_or_set_its_status(http: httpx.Client) -> None:
    done = http.post("/rest/v1/rpc/contract_raise_pgrst", json={})
    assert (done.status_code, done.headers["x-tea"]) == (418, "green")
    assert done.json() == {"code": "TEA", "message": "I am a teapot", "details": "short", "hint": "stout"}
    own = http.post("/rest/v1/rpc/contract_status", json={})
    assert (own.status_code, own.json()) == (202, "set")


def test_functions_can_read_the_role_path_and_headers_of_their_request(http: httpx.Client) -> None:
    told = http.post("/rest/v1/rpc/contract_request", json={}, headers={"x-trace": "abc"}).json()
    assert (told["role"], told["method"], told["path"]) == ("anon", "POST", "/rpc/contract_request")
    assert told["claims"]["role"] == "anon"
    assert told["headers"]["x-trace"] == "abc"
    assert told["timeout"] == "3s"


def test_a_long_statement_is_stopped(http: httpx.Client) -> None:
    done = http.post("/rest/v1/rpc/contract_sleep", json={"p_seconds": 30})
    assert (done.status_code, done.json()["code"]) == (500, "57014")
