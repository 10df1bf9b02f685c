"""The wire: handshake, replies, refusals, and garbage."""

import asyncio
import json

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.contract.realtime.server import RealtimeServer, sign
from tests.contract.realtime.wire import PATIENCE, Wire, open_wire


@pytest.fixture
def key(realtime: RealtimeServer) -> str:
    return realtime.publishable_key


async def refused(url: str) -> InvalidStatus:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(url.replace("http", "ws", 1)):
            pass
    return caught.value


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("vsn=1.0.0", 401, "API key"),
        ("apikey=nonsense", 401, "not a valid JWT"),
        ("apikey={key}&vsn=2.0.0", 403, "version"),
    ],
)
async def test_a_handshake_that_proves_nothing_is_refused(
    realtime: RealtimeServer, key: str, query: str, status: int, words: str
) -> None:
    answer = (await refused(f"{realtime.url}/realtime/v1/websocket?{query.format(key=key)}")).response
    assert answer.status_code == status
    assert answer.body is not None
    assert words in json.loads(bytes(answer.body))["error"]


async def test_expired_and_forged_tokens_open_no_socket(realtime: RealtimeServer) -> None:
    forged = realtime.token()[:-8] + "AAAAAAAA"
    for token, words in ((realtime.token(seconds=-60), "expired"), (forged, "signature")):
        answer = (await refused(f"{realtime.url}/realtime/v1/websocket?apikey={token}")).response
        assert answer.status_code == 401
        assert words in json.loads(bytes(answer.body or b""))["error"]


async def test_a_key_in_the_header_wins(realtime: RealtimeServer, key: str) -> None:
    address = f"{realtime.url}/realtime/v1/websocket?apikey=nonsense".replace("http", "ws", 1)
    async with connect(address, additional_headers={"x-api-key": key}) as connection:
        assert (await Wire(connection).join("room")).payload["status"] == "ok"


async def test_heartbeats_are_answered_with_their_ref(realtime: RealtimeServer, key: str) -> None:
    async with open_wire(realtime.url, key) as wire:
        ref = await wire.send("phoenix", "heartbeat", {})
        answer = await wire.reply(ref)
        assert (answer.topic, answer.payload) == ("phoenix", {"status": "ok", "response": {}})
        await (await wire.connection.ping())


async def test_a_heartbeat_without_ref_is_answered_without_ref(realtime: RealtimeServer, key: str) -> None:
    async with open_wire(realtime.url, key) as wire:
        await wire.connection.send('{"topic":"phoenix","event":"heartbeat","payload":{},"ref":null}')
        assert (await wire.event("phx_reply")).ref is None


async def test_a_join_echoes_bindings_word_for_word_with_stable_ids(
    realtime: RealtimeServer, key: str, table: str
) -> None:
    bindings = [
        {"event": "*", "schema": "public", "table": table},
        {"event": "INSERT", "schema": "public", "table": table, "filter": "id=eq.1", "unknown": [1, None]},
    ]
    async with open_wire(realtime.url, key) as wire:
        first = await wire.live("room", [bindings[0], None, bindings[1]])
        echoed = first.payload["response"]["postgres_changes"]
        assert [{k: v for k, v in item.items() if k != "id"} for item in echoed] == bindings
        ids = [item["id"] for item in echoed]
        assert all(isinstance(number, int) and number > 0 for number in ids)
        again = await wire.live("other", bindings)
        assert [item["id"] for item in again.payload["response"]["postgres_changes"]] == ids


async def test_leaving_is_answered_and_then_closed(realtime: RealtimeServer, key: str) -> None:
    async with open_wire(realtime.url, key) as wire:
        joined = await wire.join("room")
        join_ref = joined.ref
        ref = await wire.send("realtime:room", "phx_leave", {}, join_ref=join_ref)
        assert (await wire.reply(ref)).payload == {"status": "ok", "response": {}}
        end = await wire.event("phx_close")
        assert (end.topic, end.ref, end.payload) == ("realtime:room", join_ref, {})


async def test_a_second_join_answers_before_it_closes_the_first(realtime: RealtimeServer, key: str) -> None:
    async with open_wire(realtime.url, key) as wire:
        first = await wire.join("room")
        second = await wire.send_join("room")
        messages = [await wire.expect(lambda message: message.topic == "realtime:room") for _ in range(2)]
        assert [(message.event, message.ref) for message in messages] == [
            ("phx_reply", second),
            ("phx_close", first.ref),
        ]
        assert (await wire.join("elsewhere")).payload["status"] == "ok"


@pytest.mark.parametrize(
    ("topic", "event", "status", "reason"),
    [
        ("realtime:unknown", "phx_leave", "ok", None),
        ("realtime:unknown", "broadcast", "error", "unmatched topic"),
        ("elsewhere", "phx_join", "error", "unmatched topic"),
        ("realtime:", "phx_join", "error", "TopicNameRequired: You must provide a topic name"),
    ],
)
async def test_messages_to_unknown_topics_are_answered(
    realtime: RealtimeServer, key: str, topic: str, event: str, status: str, reason: str | None
) -> None:
    async with open_wire(realtime.url, key) as wire:
        answer = await wire.reply(await wire.send(topic, event, {}))
        assert answer.payload["status"] == status
        assert answer.payload["response"].get("reason") == reason


@pytest.mark.parametrize(
    "config", [None, 7, {"broadcast": None, "presence": None}, {"postgres_changes": "x", "private": "false"}]
)
async def test_malformed_parts_of_a_join_fall_back_to_defaults(
    realtime: RealtimeServer, key: str, config: object
) -> None:
    async with open_wire(realtime.url, key) as wire:
        answer = await wire.reply(await wire.send("realtime:room", "phx_join", {"config": config}))
        assert answer.payload == {"status": "ok", "response": {"postgres_changes": []}}


async def test_tokens_that_prove_nothing_open_no_channel(realtime: RealtimeServer, key: str) -> None:
    secrets = realtime.secrets
    unsigned = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJyb2xlIjoic2VydmljZV9yb2xlIiwiZXhwIjo5OTk5OTk5OTk5fQ."
    expected = {
        realtime.token(seconds=-60): "InvalidJWTToken: Token has expired",
        realtime.token()[:-8] + "AAAAAAAA": "JwtSignatureError: Failed to validate JWT signature",
        "abc": "MalformedJWT: The token provided is not a valid JWT",
        unsigned: "JwtSignerError: Failed to generate JWT signer",
        sign(secrets, {"role": "authenticated"}): "InvalidJWTToken: Fields `role` and `exp` are required in JWT",
        realtime.token(iss="https://other.example"): "InvalidJWTToken: JWT has another issuer",
        realtime.token(aud="others"): "InvalidJWTToken: JWT not in audience",
        realtime.token(role="postgres"): 'Unauthorized: Role "postgres" is not allowed',
        realtime.token(role="supabase_admin"): 'Unauthorized: Role "supabase_admin" is not allowed',
        realtime.token(role="nobody"): 'Unauthorized: Role "nobody" is not allowed',
    }
    async with open_wire(realtime.url, key) as wire:
        for token, reason in expected.items():
            answer = await wire.join("room", access_token=token)
            assert answer.payload["status"] == "error"
            assert answer.payload["response"]["reason"].startswith(reason)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "no json",
        "[]",
        "{}",
        "null",
        "[" * 5000 + "]" * 5000,
        '["1","1","realtime:x","phx_join",{"config":{"postgres_changes":[{"a":' + "[" * 500 + "]" * 500 + "}]}}]",
        '{"topic":"realtime:x","event":"phx_join","ref":"1","payload":' + '{"a":' * 500 + "1" + "}" * 501,
        '{"topic":1,"event":"phx_join","payload":{},"ref":"1"}',
        '["1","1",7,"phx_join",{}]',
        '["1",{"a":1},"realtime:x","phx_join",{}]',
        b"",
        b"\x00",
    ],
)  # fmt: skip
async def test_garbage_closes_its_own_socket_alone(realtime: RealtimeServer, key: str, frame: str | bytes) -> None:
    async with open_wire(realtime.url, key) as other, open_wire(realtime.url, key) as wire:
        await wire.connection.send(frame)
        assert await wire.closed() == 1003
        assert (await other.join("room")).payload["status"] == "ok"


async def test_requests_without_upgrade_and_unknown_addresses_are_refused(realtime: RealtimeServer) -> None:
    async with httpx.AsyncClient(base_url=realtime.url) as http:
        assert (await http.get("/realtime/v1/websocket")).status_code == 426
        missing = await http.get("/realtime/v1/api/tenants/x/health")
        assert missing.status_code == 501
        assert "/realtime/v1/api/tenants/x/health" in missing.json()["message"]


async def test_odd_names_are_names(realtime: RealtimeServer, key: str) -> None:
    async with open_wire(realtime.url, key) as wire:
        for name in ("ü" * 300, "a\u0000b", "%s", "'; drop table x; --", "\U0001f600"):
            joined = await wire.join(name)
            assert (joined.payload["status"], joined.topic) == ("ok", f"realtime:{name}")
            private = await wire.join(name, {"private": True}, access_token=realtime.token())
            assert private.payload["response"]["reason"].startswith("Unauthorized: ")


async def test_broken_websocket_frames_do_not_disturb_others(realtime: RealtimeServer, key: str) -> None:
    async with open_wire(realtime.url, key) as other:
        for junk in (b"\xff" * 64, b"\x81\xfe\x00\x04mask\xff\xfe\xfd\xfc", b"\x83\x80aaaa"):
            async with open_wire(realtime.url, key) as wire:
                wire.connection.transport.write(junk)
                with pytest.raises(ConnectionClosed):
                    async with asyncio.timeout(PATIENCE):
                        await wire.connection.recv()
        assert (await other.join("room")).payload["status"] == "ok"


async def test_a_frame_beyond_the_limit_closes_the_socket(realtime: RealtimeServer, key: str) -> None:
    async with open_wire(realtime.url, key) as wire:
        await wire.connection.send("x" * 5_000_001)
        assert await wire.closed() == 1009


async def test_a_thousand_joins_are_refused_past_the_limit_and_others_are_served(
    realtime: RealtimeServer, key: str
) -> None:
    async with open_wire(realtime.url, key) as wire, open_wire(realtime.url, key) as other:
        refs = [await wire.send_join(f"room-{number}") for number in range(1000)]
        assert (await other.join("room")).payload["status"] == "ok"
        answers = [await wire.reply(ref) for ref in refs]
        assert [answer.payload["status"] for answer in answers].count("ok") == 100
        reasons = {answer.payload["response"].get("reason") for answer in answers}
        assert reasons == {None, "ChannelRateLimitReached: Too many channels"}
