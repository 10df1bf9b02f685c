"""Somebody's sessions, wherever they are kept: listed to their owner alone, ended one by one, never by a guess."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx
from redis.asyncio import Redis

from app.project.authorized_client import MOST_USER_AGENT, AuthorizedClient
from app.project.client import Client
from app.project.errors import Refused, Unreachable
from app.project.models import BrowserSession
from app.project.session_files import FileSessions
from app.project.sessions import IDLE_SECONDS, MemorySessions, RedisSessions, Sessions, key_of
from app.project.settings import Settings
from tests.support.redis import needs_redis, start_redis
from tests.unit.app.project.test_sessions import URL, auth_answer, session

pytestmark = pytest.mark.anyio
LOGOUT, TOKEN = f"{URL}/auth/v1/logout", f"{URL}/auth/v1/token"


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(params=["memory", "files", pytest.param("redis", marks=needs_redis)])
async def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sessions]:
    if request.param != "redis":
        yield MemorySessions() if request.param == "memory" else FileSessions(tmp_path)
        return
    redis = Redis.from_url(request.getfixturevalue("redis_url"), decode_responses=True)
    await redis.flushall()
    yield RedisSessions(redis)
    await redis.aclose()


async def fill(sessions: Sessions) -> None:
    for sid, user in (("mine", "u"), ("other", "u"), ("foreign", "somebody-else")):
        await sessions.put(session(sid=sid, user_id=user, user_agent=f"browser of {sid}"))


async def test_they_are_listed_to_their_owner_alone(sessions: Sessions) -> None:
    await fill(sessions)
    listed = {kept.key: kept.session.user_agent for kept in await sessions.of("u")}
    assert listed == {key_of("mine"): "browser of mine", key_of("other"): "browser of other"}
    assert await sessions.of("nobody") == []


async def test_one_is_ended_and_the_others_stay(sessions: Sessions) -> None:
    await fill(sessions)
    ended = await sessions.end("u", key_of("other"))
    assert ended is not None
    assert ended.user_agent == "browser of other"
    assert await sessions.get("other") is None
    assert [kept.key for kept in await sessions.of("u")] == [key_of("mine")]
    assert await sessions.end("u", key_of("other")) is None


@pytest.mark.parametrize("key", ["", "*", "mine", "../key", key_of("unknown"), key_of("foreign")])
async def test_a_key_of_no_session_of_mine_ends_no_session(sessions: Sessions, key: str) -> None:
    await fill(sessions)
    assert await sessions.end("u", key) is None
    assert [await sessions.get(sid) is not None for sid in ("mine", "other", "foreign")] == [True] * 3


async def test_one_that_signed_out_is_not_listed(sessions: Sessions) -> None:
    await fill(sessions)
    await sessions.delete("other")
    assert [kept.key for kept in await sessions.of("u")] == [key_of("mine")]


@pytest.mark.parametrize("kind", [MemorySessions, FileSessions])
async def test_listing_a_session_does_not_count_as_use(kind: type[MemorySessions], tmp_path: Path) -> None:
    now = [1_000_000.0]
    kept = kind(*[tmp_path] * (kind is FileSessions), clock=lambda: now[0])  # type: ignore[arg-type]
    await kept.put(session())
    now[0] += 60
    await kept.get("sid")
    now[0] += 60
    assert [one.last_used_at for one in await kept.of("u")] == [1_000_060.0]
    now[0] += IDLE_SECONDS
    assert await kept.of("u") == []


@needs_redis
async def test_redis_knows_when_one_was_used(redis_url: str) -> None:
    redis = Redis.from_url(redis_url, decode_responses=True)
    await redis.flushall()
    kept = RedisSessions(redis, clock=lambda: 1_000_000.0)
    await kept.put(session())
    await redis.expire(RedisSessions.PREFIX + key_of("sid"), IDLE_SECONDS // 2)
    (found,) = await kept.of("u")
    # Some seconds may pass before Redis is queried.
    assert found.last_used_at == pytest.approx(1_000_000 - IDLE_SECONDS // 2, abs=IDLE_SECONDS // 4)
    await redis.aclose()


async def test_the_next_process_lists_them_from_their_files(tmp_path: Path) -> None:
    now = [1_000_000.0]
    clock: Callable[[], float] = lambda: now[0]  # noqa: E731
    await fill(FileSessions(tmp_path, clock=clock))
    now[0] += 60
    after = FileSessions(tmp_path, clock=clock)
    assert {(kept.key, kept.last_used_at) for kept in await after.of("u")} == {
        (key_of(sid), 1_000_000.0) for sid in ("mine", "other")
    }
    assert await after.end("u", key_of("other")) is not None
    assert await FileSessions(tmp_path, clock=clock).get("other") is None
    now[0] += IDLE_SECONDS
    assert await after.of("u") == []


@pytest.fixture
async def authorized() -> AsyncIterator[AuthorizedClient]:
    client = Client(Settings(URL, "sb_publishable_x", URL))
    yield AuthorizedClient(client, MemorySessions())
    await client.aclose()


async def held(authorized: AuthorizedClient, sid: str, **changes: Any) -> BrowserSession:
    one = session(sid=sid, access_token=f"token of {sid}", **changes)
    await authorized.sessions.put(one)
    return one


@respx.mock
async def test_a_session_that_is_ended_here_is_ended_at_the_project_too(authorized: AuthorizedClient) -> None:
    told = respx.post(LOGOUT).mock(return_value=httpx.Response(204))
    mine, _ = await held(authorized, "mine"), await held(authorized, "other")
    await authorized.end_one(mine, key_of("other"))
    await authorized.end_one(mine, key_of("other"))
    assert [call.request.headers["authorization"] for call in told.calls] == ["Bearer token of other"]
    assert told.calls[0].request.url.params["scope"] == "local"


@respx.mock
async def test_a_session_is_ended_here_although_the_project_is_unreachable(authorized: AuthorizedClient) -> None:
    respx.post(LOGOUT).mock(side_effect=httpx.ConnectError("refused"))
    mine, _ = await held(authorized, "mine"), await held(authorized, "other")
    with pytest.raises(Unreachable):
        await authorized.end_one(mine, key_of("other"))
    assert await authorized.sessions.get("other") is None


async def test_the_one_in_use_is_not_ended_from_the_list(authorized: AuthorizedClient) -> None:
    mine = await held(authorized, "mine")
    with pytest.raises(Refused, match="the session that you are using"):
        await authorized.end_one(mine, key_of("mine"))
    assert await authorized.sessions.get("mine") is not None


@respx.mock
async def test_the_others_end_at_the_project_although_my_token_has_expired(authorized: AuthorizedClient) -> None:
    respx.post(TOKEN).mock(return_value=httpx.Response(200, json=auth_answer("new-access", "new-refresh")))
    told = respx.post(LOGOUT).mock(return_value=httpx.Response(204))
    mine, _ = await held(authorized, "mine", expires_at=1.0), await held(authorized, "other")
    await authorized.end_others(mine)
    assert told.calls[0].request.headers["authorization"] == "Bearer new-access"
    assert told.calls[0].request.url.params["scope"] == "others"
    assert [kept.key for kept in await authorized.sessions.of("u")] == [key_of("mine")]


@respx.mock
async def test_a_long_user_agent_is_cut(authorized: AuthorizedClient) -> None:
    respx.post(TOKEN).mock(return_value=httpx.Response(200, json=auth_answer("a-token", "r-token")))
    opened = await authorized.open(await authorized.client.sign_in("ops@example.com", "correct-horse"), "x" * 10_000)
    assert opened.user_agent == "x" * MOST_USER_AGENT
