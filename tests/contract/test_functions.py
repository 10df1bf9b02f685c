"""Edge functions with the real clients."""

import httpx
import pytest
from supabase_functions.errors import FunctionsHttpError

from supabase import AsyncClientOptions, acreate_client
from tests.contract.conftest import Api
from tests.support.stack import Project


def test_a_function_answers(anon: Api) -> None:
    assert anon.functions.invoke("health", {"responseType": "json"}) == {"status": "ok"}
    assert anon.functions.invoke("health", {"method": "GET", "responseType": "json"}) == {"status": "ok"}


@pytest.mark.anyio
async def test_a_function_answers_the_asynchronous_client(project: Project) -> None:
    options = AsyncClientOptions(auto_refresh_token=False, persist_session=False)
    client = await acreate_client(project.url, project.publishable_key, options)
    assert await client.functions.invoke("health", {"responseType": "json"}) == {"status": "ok"}


def test_headers_of_the_answer_come_through(http: httpx.Client) -> None:
    done = http.get("/functions/v1/health")
    assert done.headers["cache-control"] == "no-store"
    assert done.headers["content-type"] == "application/json"


def test_an_unknown_function_is_not_found(anon: Api) -> None:
    with pytest.raises(FunctionsHttpError) as refused:
        anon.functions.invoke("no-such-function")
    assert refused.value.status == 404


@pytest.mark.parametrize("path", ["", "..%2fhealth", "health%00", "a/../../auth/v1/admin/users"])
def test_a_strange_path_reaches_nothing(http: httpx.Client, path: str) -> None:
    assert http.get(f"/functions/v1/{path}").status_code in {401, 404}
