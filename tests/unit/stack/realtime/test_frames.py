import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.realtime.errors import MalformedFrame
from stack.realtime.frames import (
    Frame,
    UserBroadcast,
    Version,
    decode,
    encode,
    encode_user_broadcast,
    parse_version,
)


def test_versions() -> None:
    assert (parse_version(None), parse_version(""), parse_version("1.0.0")) == (Version.V1, Version.V1, Version.V1)
    assert parse_version("2.0.0") is Version.V2
    assert parse_version("2") is None


def test_version_one_has_ref_and_no_join_ref() -> None:
    text = encode(Version.V1, "realtime:a", "system", {"x": 1}, join_ref="1")
    assert json.loads(text) == {"topic": "realtime:a", "event": "system", "payload": {"x": 1}, "ref": None}


def test_version_two_is_an_array() -> None:
    text = encode(Version.V2, "realtime:a", "system", {}, ref="2", join_ref="1")
    assert json.loads(text) == ["1", "2", "realtime:a", "system", {}]


def test_numbers_are_accepted_as_references() -> None:
    assert decode(Version.V2, '[1, 2, "t", "e", {}]') == Frame("1", "2", "t", "e", {})


@given(st.text(), st.text(max_size=20), st.text(max_size=20))
def test_client_messages_are_decoded_unchanged(payload: str, topic: str, event: str) -> None:
    for version, message in (
        (Version.V1, {"topic": topic, "event": event, "payload": {"p": payload}, "ref": "1", "join_ref": "2"}),
        (Version.V2, ["2", "1", topic, event, {"p": payload}]),
    ):
        assert decode(version, json.dumps(message)) == Frame("2", "1", topic, event, {"p": payload})


@given(st.one_of(st.text(), st.binary()), st.sampled_from(Version))
def test_any_garbage_is_a_frame_or_refused(data: str | bytes, version: Version) -> None:
    with contextlib.suppress(MalformedFrame):
        assert isinstance(decode(version, data), Frame)


def test_a_json_broadcast_is_encoded_in_both_versions() -> None:
    broadcast = UserBroadcast("e", b'{"n":1}', is_json=True)
    assert encode_user_broadcast(Version.V2, "t", broadcast, {"id": "x"}) == b'\x04\x01\x01\x0a\x01te{"id":"x"}{"n":1}'
    text = encode_user_broadcast(Version.V1, "t", broadcast, {"id": "x"})
    assert isinstance(text, str)
    assert json.loads(text)["payload"] == {"type": "broadcast", "event": "e", "payload": {"n": 1}, "meta": {"id": "x"}}


def test_a_binary_broadcast_cannot_be_encoded_in_version_one() -> None:
    assert encode_user_broadcast(Version.V1, "t", UserBroadcast("e", b"\x00", is_json=False)) is None


def test_names_longer_than_a_length_byte_cannot_be_sent() -> None:
    assert encode_user_broadcast(Version.V2, "t" * 256, UserBroadcast("e", b"", is_json=False)) is None


@pytest.mark.parametrize("cut", range(12))
def test_a_cut_binary_frame_is_refused(cut: int) -> None:
    whole = b"\x03\x01\x01\x01\x01\x00\x00" + b"12te"
    assert decode(Version.V2, whole).user_broadcast == UserBroadcast("e", b"", is_json=False)
    if cut < len(whole):
        with pytest.raises(MalformedFrame):
            decode(Version.V2, whole[:cut])
