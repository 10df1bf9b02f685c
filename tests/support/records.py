"""Signed records of changes, made by hand."""

import base64
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

PAYLOAD_TYPE = "application/vnd.in-toto+json"


def make_key(bits: int = 2048) -> RSAPrivateKey:
    return generate_private_key(65537, bits)


def jwk(key: RSAPrivateKey, key_id: str) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    return {"kty": "RSA", "kid": key_id, "n": encode(numbers.n), "e": encode(numbers.e)}


def encode(number: int) -> str:
    text = base64.urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8, "big"))
    return text.rstrip(b"=").decode()


def statement(sequence: int, previous: str | None, module: str = "m1") -> bytes:
    definition = {
        "externalParameters": {"module": {"id": module, "path": f"a/{module}"}, "operation": "apply"},
        "internalParameters": {
            "status": "SUCCEEDED",
            "chain": {"sequence": sequence, "previous_sha256": previous},
        },
    }
    metadata = {"invocationId": f"run {sequence + 50}", "finishedOn": f"2026-02-{sequence + 3:02}T12:00:00+00:00"}
    whole = {"predicate": {"buildDefinition": definition, "runDetails": {"metadata": metadata}}}
    return json.dumps(whole).encode()


def sign(payload: bytes, key: RSAPrivateKey, key_id: str, payload_type: str = PAYLOAD_TYPE) -> dict[str, Any]:
    message = b"DSSEv1 %d %b %d %b" % (len(payload_type), payload_type.encode(), len(payload), payload)
    signed = key.sign(message, PKCS1v15(), SHA256())
    return {
        "payloadType": payload_type,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id, "sig": base64.b64encode(signed).decode()}],
    }
