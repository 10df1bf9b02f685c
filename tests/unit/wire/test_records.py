"""Records verify with public keys alone; one changed byte, a missing record and an unknown key are each a clear error."""

import base64
import copy
import json
from hashlib import sha256
from typing import Any

import pytest

from tests.support.records import jwk, make_key, sign, statement
from wire.records import BadRecord, Keys, check_chain, read_envelopes, read_keys, verify

KEY = make_key()
KEYS: Keys = read_keys({"keys": [jwk(KEY, "k1")]})


def chain(length: int, module: str = "m1") -> list[dict[str, Any]]:
    made, previous = [], None
    for sequence in range(1, length + 1):
        payload = statement(sequence, previous, module)
        made.append(sign(payload, KEY, "k1"))
        previous = sha256(payload).hexdigest()
    return made


def check(envelopes: list[dict[str, Any]], keys: Keys = KEYS) -> None:
    check_chain([verify(each, keys) for each in envelopes])


def test_a_whole_chain_verifies_in_any_order_and_beside_another() -> None:
    check([*reversed(chain(3)), *chain(2, "m2")])


def test_one_changed_byte_names_the_record() -> None:
    [envelope] = chain(1)
    payload = bytearray(base64.b64decode(envelope["payload"]))
    payload[payload.index(b"SUCCEEDED")] = ord("X")
    with pytest.raises(BadRecord, match=r"Record 1 of a/m1 \(run 51\) does not match its signature"):
        verify({**envelope, "payload": base64.b64encode(bytes(payload)).decode()}, KEYS)


def test_one_changed_bit_of_the_signature_is_noticed() -> None:
    [envelope] = chain(1)
    signed = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    signed[40] ^= 1
    changed = copy.deepcopy(envelope)
    changed["signatures"][0]["sig"] = base64.b64encode(bytes(signed)).decode()
    with pytest.raises(BadRecord, match="does not match its signature"):
        verify(changed, KEYS)


@pytest.mark.parametrize(("gone", "words"), [(0, "record 1 is missing before record 2"), (1, "record 2 is missing")])
def test_a_missing_record_is_named(gone: int, words: str) -> None:
    envelopes = chain(3)
    del envelopes[gone]
    with pytest.raises(BadRecord, match=words):
        check(envelopes)


def test_a_record_that_was_written_again_breaks_the_chain_after_it() -> None:
    first, _, third = chain(3)
    other = sign(statement(2, verify(first, KEYS).sha256) + b" ", KEY, "k1")
    with pytest.raises(BadRecord, match="record 3 does not follow the record before it"):
        check([first, other, third])


def test_the_same_record_twice_is_no_chain() -> None:
    with pytest.raises(BadRecord, match="record 1 does not follow"):
        check([*chain(1), *chain(2)])


def test_an_unknown_key_is_named_and_a_key_of_the_same_name_does_not_help() -> None:
    other = make_key()
    with pytest.raises(BadRecord, match="the key k9, which is not among the public keys"):
        verify(sign(statement(1, None), other, "k9"), KEYS)
    with pytest.raises(BadRecord, match="does not match its signature"):
        verify(sign(statement(1, None), other, "k1"), KEYS)


def test_a_signature_for_another_purpose_is_no_record() -> None:
    with pytest.raises(BadRecord, match="not a record of a change"):
        verify(sign(statement(1, None), KEY, "k1", "text/plain"), KEYS)
    with pytest.raises(BadRecord, match="lacks parts of a record of a change"):
        verify(sign(b"{}", KEY, "k1"), KEYS)


@pytest.mark.parametrize(
    "envelope", [None, 1, {}, {"payload": "%", "signatures": []}, {"payload": "e30=", "signatures": [{}]}]
)
def test_what_is_no_envelope_is_said_so(envelope: Any) -> None:
    with pytest.raises(BadRecord, match="That is not a signed record"):
        verify(envelope, KEYS)


@pytest.mark.parametrize(
    "document", [None, [], {"keys": [{"kid": "a"}]}, {"keys": [{"kid": "a", "n": "é", "e": "AQAB"}]}]
)
def test_what_is_no_key_set_is_said_so(document: Any) -> None:
    with pytest.raises(BadRecord, match="not a set of public RSA keys"):
        read_keys(document)


def test_a_short_key_is_refused() -> None:
    with pytest.raises(BadRecord, match="too weak"):
        read_keys({"keys": [jwk(make_key(1024), "k1")]})


def test_one_record_a_list_and_lines_are_read() -> None:
    envelopes = chain(2)
    lines = "\n".join(json.dumps(each) for each in envelopes) + "\n"
    assert read_envelopes(json.dumps(envelopes[0], indent=2)) == envelopes[:1]
    assert read_envelopes(json.dumps(envelopes)) == read_envelopes(lines) == envelopes
    for text in ("", "[]"):
        with pytest.raises(BadRecord, match="There is no record in it"):
            read_envelopes(text)
    for text in ("no json", "[" * 100_000):
        with pytest.raises(BadRecord, match="neither a record nor a list"):
            read_envelopes(text)
