"""Records of changes, signed by the function with the keys, and verified by another library and by `runyard record`."""

import json
import uuid
from base64 import b64decode
from typing import Any

import httpx
import psycopg
import pytest
from joserfc.jwk import RSAKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from tests.integration.edge.conftest import Edge
from tests.integration.edge.people import Person
from tests.integration.edge.test_job_identity import claim
from tests.support.waiting import wait_until
from wire.records import read_keys, verify


def record_keys(edge: Edge, document: str = "record-keys") -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{edge.url}/job-identity/.well-known/{document}", timeout=30).json()
    return found


def applied(edge: Edge, person: Person) -> int:
    """An apply that ended; its record waits."""
    attempt = claim(edge, person, "APPLY")
    names = {"p_job": attempt.job["id"], "p_attempt": attempt.job["attempt"], "p_status": "SUCCEEDED"}
    edge.worker_rpc(attempt.session, "worker_finish", **names).raise_for_status()
    return attempt.job["id"]


def record(person: Person, job: int) -> dict[str, Any]:
    found: dict[str, Any] = person.rpc("change_record", p_job=job)
    return found


def verified(envelope: dict[str, Any], keys: dict[str, Any]) -> bytes:
    """Verify as a stranger does: with securesystemslib, and the public keys."""
    [signature] = envelope["signatures"]
    [key] = [each for each in keys["keys"] if each["kid"] == signature["keyid"]]
    public = RSAKey.import_key(key).as_pem(private=False).decode()
    known = SSlibKey(key["kid"], "rsa", "rsa-pkcs1v15-sha256", {"public": public})
    Envelope.from_dict(json.loads(json.dumps(envelope))).verify([known], 1)
    return b64decode(envelope["payload"])


def test_the_end_of_an_apply_is_signed_when_the_sender_is_woken(edge: Edge, person: Person) -> None:
    job = applied(edge, person)
    assert edge.post("notify", {"deliver": True}).status_code == 200
    # The stack's own sender may have been first.
    found = wait_until(lambda: (found := record(person, job))["envelope"] and found, timeout_seconds=180)
    keys = record_keys(edge)
    statement = json.loads(verified(found["envelope"], keys))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["predicate"]["buildDefinition"]["internalParameters"]["status"] == "SUCCEEDED"
    assert verify(found["envelope"], read_keys(keys)).sequence == found["sequence"] == 1
    changed = {**found["envelope"], "payload": found["envelope"]["payload"][:-8] + "AAAAAAAA"}
    with pytest.raises(VerificationError):
        verified(changed, keys)


def open_again(sql: psycopg.Connection[Any], job: int) -> None:
    """Take the signature away: the stack has a signer of its own, which may be first."""
    with sql.transaction():
        sql.execute("alter table private.change_records disable trigger guard")
        sql.execute(
            "update private.change_records set key_id = null, signature = null, signed_at = null, sign_at = now()"
            " where job_id = %s",
            [job],
        )
        sql.execute("alter table private.change_records enable trigger guard")


def test_a_replaced_key_still_verifies_what_it_signed(
    person: Person, other_edge: Any, edge: Edge, sql: psycopg.Connection[Any]
) -> None:
    old, new = (RSAKey.generate_key(2048, private=True) for _ in range(2))
    private = [{**each.as_dict(private=True), "kid": name} for each, name in ((old, "old"), (new, "new"))]
    retired = {**old.as_dict(private=False), "kid": "old"}
    records = []
    for keys in ([private[0]], [private[1], retired]):
        signer = other_edge(RUNYARD_IDENTITY_KEYS=json.dumps(keys))
        job = applied(edge, person)

        def is_signed(job: int = job, signer: Edge = signer, key: str = keys[0]["kid"]) -> bool:
            open_again(sql, job)
            assert signer.post("job-identity", {"sign": True}).status_code == 200
            return bool(record(person, job)["key_id"] == key)

        wait_until(is_signed, timeout_seconds=180)
        records.append(record(person, job)["envelope"])
    served = record_keys(signer)
    assert [key["kid"] for key in served["keys"]] == ["new", "old"]
    assert [key["kid"] for key in record_keys(signer, "jwks")["keys"]] == ["new"], "clouds trust no retired key"
    assert [verify(each, read_keys(served)).key_id for each in records] == ["old", "new"]


def test_a_record_waits_while_the_function_has_no_key(
    person: Person, other_edge: Any, edge: Edge, sql: psycopg.Connection[Any]
) -> None:
    without = other_edge(RUNYARD_IDENTITY_KEYS="")
    job = applied(edge, person)

    def is_refused() -> bool:
        open_again(sql, job)
        answer = without.post("job-identity", {"sign": True})
        return answer.status_code == 503 and record(person, job)["envelope"] is None

    wait_until(is_refused, timeout_seconds=180)
    open_again(sql, job)
    assert edge.post("job-identity", {"sign": True}).status_code == 200
    wait_until(lambda: record(person, job)["envelope"] is not None, timeout_seconds=180)


@pytest.mark.parametrize("body", [{"sign": False}, {"sign": True, "statement": "{}"}, {"sign": str(uuid.uuid4())}])
def test_nobody_has_a_statement_of_their_own_signed(edge: Edge, body: dict[str, Any]) -> None:
    answer = edge.post("job-identity", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "RY422")
