from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.realtime.joins import JoinRequest, Replay, binding_id, parse_join

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
sections = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("broadcast", "presence", "private", "postgres_changes"), json_values)
)


@given(st.one_of(json_values, st.fixed_dictionaries({"config": sections | json_values})))
def test_no_payload_is_refused(payload: Any) -> None:
    assert isinstance(parse_join(payload, "room"), JoinRequest)


def test_everything_is_read() -> None:
    request = parse_join(
        {
            "config": {
                "broadcast": {
                    "ack": True,
                    "self": "true",
                    "replay": {"since": 5, "limit": 3},
                    "replication_ready": True,
                },
                "presence": {"key": "k", "enabled": True},
                "private": "TRUE",
                "postgres_changes": [None, {"event": "*"}],
            },
            "access_token": "a",
        },
        "room",
    )
    assert request == JoinRequest(
        token="a", ack=True, echo=True, replay=Replay(5, 3), wants_replay=True, wants_replication_ready=True,
        presence_key="k", has_presence=True, is_private=True, bindings=({"event": "*"},),
    )  # fmt: skip


def test_an_empty_presence_key_becomes_one_of_its_own() -> None:
    keys = {parse_join({"config": {"presence": {"key": ""}}}, "room").presence_key for _ in range(5)}
    assert len(keys) == 5


def test_the_oldest_clients_name_the_table_in_the_topic() -> None:
    assert parse_join({}, "public:t:id=eq.1").bindings == ({"schema": "public", "table": "t", "filter": "id=eq.1"},)
    assert parse_join({}, "public").bindings == ({"schema": "public"},)


@given(st.dictionaries(st.text(), json_values))
def test_ids_are_stable_and_never_zero(binding: dict[str, Any]) -> None:
    number = binding_id(binding)
    assert 0 < number < 2**31
    assert binding_id(dict(reversed(list(binding.items())))) == number


@pytest.mark.parametrize("replay", [None, 1, {"since": -1}, {"since": "x"}, {"limit": True}])
def test_a_malformed_replay_is_noticed(replay: Any) -> None:
    request = parse_join({"config": {"broadcast": {"replay": replay}}}, "room")
    assert (request.wants_replay, request.replay) == (True, None)
