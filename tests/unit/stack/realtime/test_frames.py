import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from stack.realtime.errors import MalformedFrame
from stack.realtime.frames import Frame, decode, encode


def test_a_server_message_has_a_ref_and_no_join_ref() -> None:
    text = encode("realtime:a", "system", {"x": 1})
    assert json.loads(text) == {"topic": "realtime:a", "event": "system", "payload": {"x": 1}, "ref": None}


def test_numbers_are_accepted_as_references() -> None:
    message = {"join_ref": 1, "ref": 2, "topic": "t", "event": "e", "payload": {}}
    assert decode(json.dumps(message)) == Frame("1", "2", "t", "e", {})


@given(st.text(), st.text(max_size=20), st.text(max_size=20))
def test_client_messages_are_decoded_unchanged(payload: str, topic: str, event: str) -> None:
    message = {"topic": topic, "event": event, "payload": {"p": payload}, "ref": "1", "join_ref": "2"}
    assert decode(json.dumps(message)) == Frame("2", "1", topic, event, {"p": payload})


@given(st.one_of(st.text(), st.binary()))
def test_any_garbage_is_a_frame_or_refused(data: str | bytes) -> None:
    with contextlib.suppress(MalformedFrame):
        assert isinstance(decode(data), Frame)
