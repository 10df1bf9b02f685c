"""Signed records of changes: DSSE envelopes around in-toto Statements, verified with public keys and nothing else."""

import json
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Any

PAYLOAD_TYPE = "application/vnd.in-toto+json"
# What RS256 signs around a digest (RFC 8017, 9.2). The whole block is rebuilt and compared: nothing of it is parsed.
_DIGEST_INFO = bytes.fromhex("3031300d060960864801650304020105000420")
_LEAST_BITS = 2048

Keys = Mapping[str, tuple[int, int]]


class BadRecord(Exception):
    """A record, key or chain that does not verify, and why."""


@dataclass(frozen=True)
class Record:
    """A record whose signature is right."""

    module: str
    path: str
    run: str
    operation: str
    status: str
    finished_at: str
    sequence: int
    previous: str | None
    sha256: str
    key_id: str


def read_keys(document: Any) -> Keys:
    """Read a key set as job-identity serves it (JWKS)."""
    try:
        found = {str(key["kid"]): (_number(key["n"]), _number(key["e"])) for key in document["keys"]}
    except (TypeError, KeyError, ValueError) as error:
        raise BadRecord("That is not a set of public RSA keys.") from error
    for key_id, (modulus, exponent) in found.items():
        if modulus.bit_length() < _LEAST_BITS or exponent < 3:
            raise BadRecord(f"The key {key_id} is too weak to prove anything.")
    return found


def read_envelopes(text: str) -> list[Any]:
    """Read one envelope, a list of them, or one in each line."""
    try:
        found = json.loads(text)
    except ValueError:
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError) as error:
            raise BadRecord("That is neither a record nor a list of records.") from error
    except RecursionError as error:
        raise BadRecord("That is neither a record nor a list of records.") from error
    if found == []:
        raise BadRecord("There is no record in it.")
    return found if isinstance(found, list) else [found]


def verify(envelope: Any, keys: Keys) -> Record:
    """Verify one envelope; raise BadRecord where its signature is not that of a known key."""
    try:
        payload, [signature] = b64decode(envelope["payload"], validate=True), envelope["signatures"]
        key_id, signed = str(signature["keyid"]), b64decode(signature["sig"], validate=True)
        is_ours = envelope["payloadType"] == PAYLOAD_TYPE
    except (TypeError, KeyError, ValueError) as error:
        raise BadRecord("That is not a signed record.") from error
    if not is_ours:
        raise BadRecord("That is signed, but it is not a record of a change.")
    if key_id not in keys:
        raise BadRecord(f"It is signed by the key {key_id}, which is not among the public keys.")
    if not _is_signed(b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload),
                      signed, keys[key_id]):  # fmt: skip
        raise BadRecord(f"{_named(payload)} does not match its signature: it was changed after it was signed.")
    return _read(payload, key_id)


def check_chain(records: Iterable[Record]) -> None:
    """Check that each module's records begin with the first, and that each names the one before it."""
    for _, chain in groupby(sorted(records, key=lambda each: (each.module, each.sequence)), lambda each: each.module):
        expected, previous = 1, None
        for record in chain:
            if record.sequence > expected:
                missing = str(expected) if record.sequence == expected + 1 else f"{expected} to {record.sequence - 1}"
                raise BadRecord(f"{record.path}: record {missing} is missing before record {record.sequence}.")
            if record.sequence < expected or record.previous != previous:
                raise BadRecord(
                    f"{record.path}: record {record.sequence} does not follow the record before it in this file."
                )
            expected, previous = record.sequence + 1, record.sha256


def _read(payload: bytes, key_id: str) -> Record:
    try:
        definition = (predicate := json.loads(payload)["predicate"])["buildDefinition"]
        outside, inside = definition["externalParameters"], definition["internalParameters"]
        metadata = predicate["runDetails"]["metadata"]
        return Record(
            module=outside["module"]["id"],
            path=outside["module"]["path"],
            run=metadata["invocationId"],
            operation=outside["operation"],
            status=inside["status"],
            finished_at=metadata["finishedOn"],
            sequence=int(inside["chain"]["sequence"]),
            previous=inside["chain"]["previous_sha256"],
            sha256=sha256(payload).hexdigest(),
            key_id=key_id,
        )
    except (TypeError, KeyError, ValueError) as error:
        raise BadRecord("It is signed, but it lacks parts of a record of a change.") from error


def _named(payload: bytes) -> str:
    try:
        record = _read(payload, "")
    except BadRecord:
        return "The record"
    return f"Record {record.sequence} of {record.path} ({record.run})"


def _number(text: str) -> int:
    return int.from_bytes(urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")


def _is_signed(message: bytes, signature: bytes, key: tuple[int, int]) -> bool:
    modulus, exponent = key
    size = (modulus.bit_length() + 7) // 8
    digest = _DIGEST_INFO + sha256(message).digest()
    expected = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
    number = int.from_bytes(signature, "big")
    return (
        len(signature) == size
        and number < modulus
        and pow(number, exponent, modulus) == int.from_bytes(expected, "big")
    )
