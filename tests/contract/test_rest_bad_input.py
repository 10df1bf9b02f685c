"""Requests that nobody should send: a clear error in PostgREST's shape, and the process serves the next one."""

from collections.abc import Iterator

import httpx
import pytest

SHAPE = {"code", "message", "details", "hint"}
PLACES = "/rest/v1/contract_places"
ADD = "/rest/v1/rpc/contract_add"


@pytest.fixture(autouse=True)
def _still_serving(http: httpx.Client) -> Iterator[None]:
    yield
    assert http.post(ADD, json={"p_a": 1}).json() == 11


@pytest.fixture
def many() -> str:
    """A view of 1,500 rows."""
    return "/rest/v1/contract_many"


def refused(done: httpx.Response, *statuses: int) -> dict[str, str]:
    assert done.status_code in (statuses or (400,)), done.text
    assert set(done.json()) == SHAPE
    return dict(done.json())


@pytest.mark.parametrize(
    "query",
    [
        "name=nope.x", "name=eq", "name=", "name=eq(any).{1}", "name=in.x", "name=in.(a",
        "score=is.maybe", "name=not.x", "or=(", "or=()", "or=name.eq.x", "or=(name.nope.x)", "and=(a.eq.1,)",
        "order=name.sideways", "order=name.asc.nullsup", "order=", "select=name(", "select=,", "select=a:", "select=name::",
        "limit=x", "offset=x", "select=*,", "a.b.c=eq.1", "columns=,", "name=eq.%FF", "%FF=eq.1", "name=fts.x",
        "meta->=eq.1", "select=meta->>", "or=(" + "and(" * 60 + "a.eq.1" + ")" * 60 + ")",
    ],
)  # fmt: skip
def test_a_malformed_query_is_refused(http: httpx.Client, query: str) -> None:
    done = http.get(f"{PLACES}?{query}")
    if query == "order=":
        assert done.status_code == 200
        return
    assert refused(done, 400, 501)["code"] in {"PGRST100", "PGRST108", "PGRST127", "42703"}


def test_an_unknown_operator_is_named(http: httpx.Client) -> None:
    body = refused(http.get(f"{PLACES}?name=nope.x"))
    assert body["code"] == "PGRST100"
    assert "nope" in body["message"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("score=eq.many", "22P02"), ("id=eq.1", "22P02"), ("is_open=eq.perhaps", "22P02"),
        ("nope=eq.1", "42703"), ("created_at=gt.soon", "22007"),
        ("name=imatch.[", "2201B"), ("name=eq.a%00b", "22021"), ("score=eq.1e999999", "22003"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_column_is_refused(http: httpx.Client, query: str, code: str) -> None:
    assert refused(http.get(f"{PLACES}?{query}"), 400, 404)["code"] == code


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"nope", b"{'a': 1}", b'{"p_a": 1,}', b"\xff\xfe", b'{"p_a": "\xff"}', b"[" * 5000 + b"]" * 5000,
        b'{"p_a":' * 3000 + b"1" + b"}" * 3000, b"\x00", b'{"p_a": NaN}', b'{"p_a": 1} trailing',
    ],
)  # fmt: skip
def test_a_body_that_is_not_json_is_refused(http: httpx.Client, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    done = http.post(ADD, content=body, headers=headers)
    assert refused(done, 400, 404)["code"] in {"PGRST102", "PGRST202"}


@pytest.mark.parametrize("value", ["x", {}, [1], 2**31, 1.5, ""])
def test_an_argument_of_the_wrong_type_is_refused(http: httpx.Client, value: object) -> None:
    done = http.post(ADD, json={"p_a": value})
    assert refused(done)["code"] in {"22P02", "22003", "PGRST102"}


def test_a_nul_in_text_is_refused_not_cut(http: httpx.Client) -> None:
    done = http.post("/rest/v1/rpc/contract_upper", json={"p_text": "a\x00b"})
    assert refused(done)["code"] in {"22P05", "22021"}


def test_ten_megabytes_are_read_and_more_than_the_limit_refused(http: httpx.Client) -> None:
    big = "x" * 10_000_000
    echoed = http.post("/rest/v1/rpc/contract_echo", json={"p_value": big})
    assert (echoed.status_code, len(echoed.content)) == (200, 10_000_002)
    assert refused(http.post(ADD, content=b"x" * 10_000_000))["code"] == "PGRST102"
    huge = http.post(ADD, content=b'{"name": "' + b"x" * 51_000_000 + b'"}')
    assert refused(huge, 413)["message"] == "The request body is too large"


def test_a_body_without_a_length_is_limited_too(http: httpx.Client) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(52):
            yield b"x" * 1_000_000

    done = http.post(ADD, content=parts(), headers={"content-type": "application/json"})
    assert done.status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "contract_places", 501), ("POST", "contract_places", 501), ("PATCH", "contract_places?id=eq.1", 501),
        ("DELETE", "contract_places?id=eq.1", 501), ("TRACE", "contract_places", 405), ("PUT", "rpc/contract_add", 405),
        ("DELETE", "rpc/contract_add", 405), ("GET", "rpc/contract_add?p_a=1", 405), ("GET", "contract_places/1", 404),
        ("POST", "rpc/contract_add/x", 404),
        ("GET", "", 404), ("GET", "nope", 404), ("GET", "%00", 404),
    ],
)  # fmt: skip
def test_unknown_paths_and_methods_are_refused(http: httpx.Client, method: str, path: str, status: int) -> None:
    refused(http.request(method, f"/rest/v1/{path}", json={} if method in ("PUT", "POST") else None), status)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"accept": "text/csv"}, 501), ({"accept": "application/vnd.pgrst.plan+json"}, 501), ({"accept": "image/png"}, 501),
        ({"prefer": "count=estimated"}, 501), ({"accept": "application/vnd.pgrst.object+json"}, 501),
        ({"accept-profile": "nope"}, 406),
    ],
)  # fmt: skip
def test_headers_that_cannot_be_honoured_are_refused(http: httpx.Client, headers: dict[str, str], status: int) -> None:
    body = refused(http.get(PLACES, headers=headers), status)
    if status == 501:
        assert body["details"].startswith("The embedded stack does not speak")


@pytest.mark.parametrize(
    "query",
    [
        "select=score.sum()", "select=*,contract_people!place_id(*,contract_places!place_id(*))", "select=score::text",
        "meta->>a=eq.1",
    ],
)  # fmt: skip
def test_queries_that_are_not_implemented_answer_501(http: httpx.Client, query: str) -> None:
    assert refused(http.get(f"{PLACES}?{query}"), 501)["code"] == "PGRST127"


def test_a_page_beyond_the_end(http: httpx.Client) -> None:
    done = http.get(f"{PLACES}?offset=100", headers={"prefer": "count=exact"})
    assert refused(done, 416)["code"] == "PGRST103"
    assert done.headers["content-range"] == "*/0"
    assert http.get(f"{PLACES}?offset=100").json() == []
    assert refused(http.get(f"{PLACES}?limit=-1"), 416)["code"] == "PGRST103"


def test_pages_report_their_range(http: httpx.Client, many: str) -> None:
    part = http.get(f"{many}?order=n&offset=2&limit=3", headers={"prefer": "count=exact"})
    assert (part.status_code, part.headers["content-range"]) == (206, "2-4/1500")
    assert [row["n"] for row in part.json()] == [3, 4, 5]
    assert http.get(f"{many}?n=lte.10").headers["content-range"] == "0-9/*"
    assert http.get(f"{many}?and=(n.gt.5,n.lte.10)").headers["content-range"] == "0-4/*"


def test_at_most_a_thousand_rows_come_at_once(http: httpx.Client, many: str) -> None:
    assert len(http.get(many).json()) == 1000


def test_a_function_that_returns_rows_answers_501(http: httpx.Client) -> None:
    assert refused(http.post("/rest/v1/rpc/contract_table", json={"p_n": 1}), 501)["code"] == "PGRST127"
    assert refused(http.post("/rest/v1/rpc/contract_numbers", json={"p_n": 1}), 501)["code"] == "PGRST127"
