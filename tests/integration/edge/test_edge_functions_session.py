"""worker-session: a token becomes a session once, and every failure looks the same."""

import base64
import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import jwt
import psycopg
import pytest

from tests.integration.edge.conftest import Edge
from tests.integration.edge.people import Person, Runner, make_token

BOOT = str(uuid.UUID(int=7))


def asking(runner: Runner, **changes: Any) -> dict[str, Any]:
    """Return a request for a session."""
    body = {"worker_id": runner.id, "worker_token": runner.token, "instance": "blue-1", "boot_id": BOOT}
    return {**body, "facts": {"hostname": "host", "version": "0.1.0"}, **changes}


def claims_of(token: str) -> dict[str, Any]:
    """Read a token's claims without checking it."""
    part = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def open_session(edge: Edge, runner: Runner) -> dict[str, Any]:
    """Open a session that must be granted."""
    answer = edge.post("worker-session", asking(runner))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_token_becomes_a_session_that_the_database_knows(edge: Edge, runner: Runner) -> None:
    grant = open_session(edge, runner)
    assert grant["publishable_key"] == edge.stack.publishable_key
    assert grant["url"] == edge.stack.url
    assert grant["realtime"]["topics"] == [f"worker:{runner.id}"]
    assert (grant["worker"]["id"], grant["worker"]["org_id"]) == (runner.id, runner.org_id)
    claims = claims_of(grant["access_token"])
    assert (claims["role"], claims["sub"], claims["sid"]) == ("worker", runner.id, grant["session_id"])
    assert claims["exp"] - claims["iat"] == grant["expires_in"] == 900
    heartbeat = edge.worker_rpc(
        grant["access_token"], "worker_heartbeat", p_status="ONLINE", p_version="0.1.0", p_running=[]
    )
    assert heartbeat.status_code == 200, heartbeat.text
    assert heartbeat.json()["lease_seconds"] > 0


def test_every_refusal_is_the_same(edge: Edge, person: Person, runner: Runner) -> None:
    other = person.register()
    removed = person.register()
    person.rpc("remove_worker", p_worker=removed.id)
    refused = [
        asking(runner, worker_token="ryw_wrong"),
        asking(runner, worker_token=make_token()[0]),
        asking(runner, worker_token=other.token),
        asking(runner, worker_token="x" * 100),
        asking(runner, worker_id=str(uuid.uuid4())),
        asking(removed),
        {**asking(runner), "worker_token": None, "access_token": "not.a.token"},
    ]
    refused[-1].pop("worker_token")
    answers = [edge.post("worker-session", body) for body in refused]
    assert [answer.status_code for answer in answers] == [401] * len(refused)
    assert len({answer.text for answer in answers}) == 1
    assert not any(runner.token in answer.text for answer in answers)


def test_refusing_an_unknown_runner_takes_as_long_as_refusing_a_wrong_token(edge: Edge, runner: Runner) -> None:
    def seconds(body: dict[str, Any]) -> float:
        before = edge.cpu_seconds()
        assert edge.post("worker-session", body).status_code == 401
        return edge.cpu_seconds() - before

    # The first of each is left out: what is compiled then is known afterwards.
    tries = [
        (
            seconds(asking(runner, worker_token=make_token()[0])),
            seconds(asking(runner, worker_id=str(uuid.uuid4()))),
        )
        for _ in range(6)
    ][1:]
    # The middle one: what else the process did meanwhile, such as collecting its garbage, falls upon one of them.
    wrong, unknown = (median(each) for each in zip(*tries, strict=True))
    assert 0.5 < unknown / wrong < 2, "the time distinguishes an unknown id from a wrong token"


def test_a_revoked_token_opens_nothing_and_a_rotated_one_does(edge: Edge, person: Person, runner: Runner) -> None:
    for _ in range(5):
        person.register()
    token, digest = make_token()
    person.rpc(
        "rotate_worker_token", p_worker=runner.id, p_token_hash=digest, p_token_hint=token[-4:], p_overlap_seconds=3600
    )
    assert edge.post("worker-session", asking(runner)).status_code == 200, "the old one overlaps"
    assert edge.post("worker-session", asking(runner, worker_token=token)).status_code == 200
    live = person.rpc("list_worker_tokens", p_worker=runner.id)
    assert len(live) == 2
    for row in live:
        person.rpc("revoke_worker_token", p_token=row["id"])
    assert edge.post("worker-session", asking(runner)).status_code == 401
    assert edge.post("worker-session", asking(runner, worker_token=token)).status_code == 401


def test_a_second_process_learns_of_the_first(edge: Edge, runner: Runner) -> None:
    open_session(edge, runner)
    second = edge.post("worker-session", asking(runner, boot_id=str(uuid.uuid4())))
    assert second.status_code == 409
    assert second.json()["code"] == "RY409"
    assert "blue-1" in second.json()["message"]
    assert second.json()["hint"]
    assert edge.post("worker-session", asking(runner)).status_code == 200, "the same process may open it again"


def test_an_organisation_that_is_not_the_runner_s_is_refused(edge: Edge, runner: Runner) -> None:
    right = edge.post("worker-session", asking(runner, organization_id=runner.org_id))
    wrong = edge.post("worker-session", asking(runner, organization_id=str(uuid.uuid4())))
    assert (right.status_code, wrong.status_code) == (200, 400)
    assert "another organisation" in wrong.json()["message"]
    heartbeat = edge.worker_rpc(right.json()["access_token"], "worker_heartbeat", p_status="ONLINE", p_version="1")
    assert heartbeat.status_code == 200, "the refused process has taken nothing over"


def test_a_session_is_renewed_without_the_token_until_it_ends(edge: Edge, runner: Runner) -> None:
    grant = open_session(edge, runner)
    renewed = edge.post("worker-session", {"renew": True}, grant["access_token"])
    assert renewed.status_code == 200, renewed.text
    fresh = renewed.json()["access_token"]
    assert claims_of(fresh)["sid"] == grant["session_id"]
    assert edge.worker_rpc(fresh, "worker_close_session", p_reason="test").status_code == 200
    ended = edge.post("worker-session", {"renew": True}, fresh)
    assert (ended.status_code, ended.json()["code"]) == (401, "RY401")


def test_only_our_own_worker_tokens_renew(edge: Edge, person: Person, runner: Runner) -> None:
    grant = open_session(edge, runner)
    head, body, signature = grant["access_token"].split(".")
    forged = base64.urlsafe_b64encode(json.dumps({**claims_of(grant["access_token"]), "sub": "x"}).encode()).decode()
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    tokens = ["nonsense", person.token, f"{head}.{forged.rstrip('=')}.{signature}", f"{none}.{body}.", None]
    answers = [edge.post("worker-session", {"renew": True}, token) for token in tokens]
    assert [answer.status_code for answer in answers] == [401] * len(tokens)


def test_an_executor_s_token_stays_bound_to_its_job(edge: Edge, runner: Runner) -> None:
    grant = open_session(edge, runner)
    answer = edge.post("worker-session", {"job": {"id": 12, "attempt": 3}}, grant["access_token"])
    assert answer.status_code == 200, answer.text
    token = answer.json()["access_token"]
    assert (claims_of(token)["job"], claims_of(token)["att"]) == (12, 3)
    renewed = edge.post("worker-session", {"renew": True}, token).json()["access_token"]
    assert (claims_of(renewed)["job"], claims_of(renewed)["att"]) == (12, 3)
    other = edge.post("worker-session", {"job": {"id": 13, "attempt": 1}}, token)
    assert other.status_code == 401, "it cannot be turned into another job's"
    assert claims_of(token)["role"] == claims_of(renewed)["role"] == "executor"
    instance_wide: dict[str, dict[str, Any]] = {
        "worker_claim": {"p_request_id": BOOT, "p_slots": 1},
        "worker_heartbeat": {"p_status": "ONLINE", "p_version": "0.1.0", "p_running": []},
        "worker_close_session": {"p_reason": "no"},
        "worker_recover": {"p_running": []},
    }
    for name, arguments in instance_wide.items():
        assert edge.worker_rpc(token, name, **arguments).json()["code"] == "42501", name
    elsewhere = edge.worker_rpc(token, "worker_job", p_job=13, p_attempt=1)
    assert elsewhere.json()["code"] == "RY403"
    gone = edge.worker_rpc(token, "worker_job", p_job=12, p_attempt=3)
    assert gone.json()["code"] == "RY410"


def aged(edge: Edge, token: str, seconds: int) -> str:
    """The same token, as if it had been signed so long ago."""
    key, claims = edge.stack.secrets.signing_jwk, claims_of(token)
    older = {**claims, "iat": claims["iat"] - seconds, "exp": claims["exp"] - seconds}
    return jwt.encode(older, jwt.PyJWK(key).key, algorithm=key["alg"], headers={"kid": key["kid"]})


def test_an_executor_s_token_is_renewed_after_a_long_outage_and_a_runner_s_is_not(edge: Edge, runner: Runner) -> None:
    """A runner opens a session again; an executor has nothing to open one with, and what it did must not be lost."""
    grant = open_session(edge, runner)["access_token"]
    executor = edge.post("worker-session", {"job": {"id": 12, "attempt": 3}}, grant).json()["access_token"]
    day = 24 * 60 * 60
    for token, seconds, status in (
        (grant, 60, 200),
        (grant, 1800, 401),
        (executor, 1800, 200),
        (executor, 6 * day, 200),
        (executor, 8 * day, 401),
    ):
        assert edge.post("worker-session", {"renew": True}, aged(edge, token, seconds)).status_code == status, seconds


def test_an_engines_token_is_valid_only_for_reading_the_state_of_its_job(edge: Edge, runner: Runner) -> None:
    grant = open_session(edge, runner)
    wanted = {"job": {"id": 12, "attempt": 3}, "engine": True}
    executor = edge.post("worker-session", {"job": wanted["job"]}, grant["access_token"]).json()["access_token"]
    for asking in (grant["access_token"], executor):
        token = edge.post("worker-session", wanted, asking).json()["access_token"]
        claims = claims_of(token)
        assert (claims["role"], claims["job"], claims["att"]) == ("engine", 12, 3)
    other = edge.post("worker-session", {"job": {"id": 13, "attempt": 1}, "engine": True}, executor)
    assert other.status_code == 401
    for body in ({"renew": True}, wanted, {"job": wanted["job"]}):
        assert edge.post("worker-session", body, token).status_code == 401, body
    for name, arguments in {
        "worker_job": {},
        "worker_report": {"p_phase": "PLAN"},
        "worker_append_logs": {"p_chunks": []},
        "worker_finish": {"p_status": "SUCCEEDED"},
        "worker_state_put": {"p_body": "{}"},
        "worker_put_artifact": {"p_name": "x", "p_body_base64": "", "p_sha256": ""},
    }.items():
        refused = edge.worker_rpc(token, name, p_job=12, p_attempt=3, **arguments).json()["code"]
        assert refused in {"42501", "PGRST202"}, (name, refused)
    assert edge.worker_rpc(token, "worker_state_get", p_job=12, p_attempt=3).json()["code"] == "RY410"
    assert edge.worker_rpc(token, "worker_state_get", p_job=13, p_attempt=3).json()["code"] == "RY403"


def test_a_check_opens_no_session(edge: Edge, runner: Runner, sql: psycopg.Connection[Any]) -> None:
    body = {"check": True, "worker_id": runner.id, "worker_token": runner.token}
    right = edge.post("worker-session", body)
    assert right.json() == {
        "is_valid": True,
        "url": edge.stack.url,
        "publishable_key": edge.stack.publishable_key,
    }
    assert edge.post("worker-session", {**body, "worker_token": "ryw_no"}).status_code == 401
    [count] = sql.execute("select count(*) from private.sessions where worker_id = %s", [runner.id]).fetchone() or [
        None
    ]
    assert count == 0


def test_attempts_are_limited_before_anything_is_hashed(
    edge: Edge, runner: Runner, sql: psycopg.Connection[Any]
) -> None:
    key = f"session:unproven:{runner.id}:unknown"
    sql.execute("insert into private.rate_limits (key, window_started_at, used) values (%s, now(), 100000)", [key])
    answer = edge.post("worker-session", asking(runner))
    assert (answer.status_code, answer.json()["code"]) == (429, "RY429")
    assert int(answer.headers["retry-after"]) > 0
    assert edge.post("worker-session", asking(runner, worker_token="ryw_x")).text == answer.text


def test_guesses_with_a_runners_id_do_not_lock_that_runner_out(
    edge: Edge, runner: Runner, sql: psycopg.Connection[Any]
) -> None:
    open_session(edge, runner)
    guess = asking(runner, worker_token="ryw_guess")
    for headers in ({}, {"x-forwarded-for": "203.0.113.9"}):
        address = headers.get("x-forwarded-for", "unknown")
        sql.execute(
            "insert into private.rate_limits (key, window_started_at, used) values (%s, now(), 59)"
            " on conflict (key) do update set used = 59, window_started_at = now()",
            [f"session:unproven:{runner.id}:{address}"],
        )
        statuses = [edge.post("worker-session", guess, **headers).status_code for _ in range(2)]
        assert statuses == [401, 429]
    assert edge.post("worker-session", asking(runner)).status_code == 200, "behind the same address, too"
    assert edge.post("worker-session", asking(runner), **{"x-forwarded-for": "203.0.113.10"}).status_code == 200


def test_unsigned_access_tokens_do_not_use_up_a_runners_attempts(edge: Edge, runner: Runner) -> None:
    body = asking(runner, access_token="x")
    del body["worker_token"]
    assert {edge.post("worker-session", body).status_code for _ in range(70)} == {401}
    assert edge.post("worker-session", asking(runner)).status_code == 200


def leave_one_attempt(sql: psycopg.Connection[Any], key: str, limit: int) -> None:
    """Use up all attempts but one, in a minute that does not end before a slow machine has sent two requests."""
    sql.execute(
        "insert into private.rate_limits (key, window_started_at, used) values (%s, now() + interval '1 hour', %s)"
        " on conflict (key) do update set window_started_at = excluded.window_started_at, used = excluded.used",
        [key, limit - 1],
    )


def test_a_job_s_renewals_are_its_own(edge: Edge, runner: Runner, sql: psycopg.Connection[Any]) -> None:
    grant = open_session(edge, runner)
    job = edge.post("worker-session", {"job": {"id": 12, "attempt": 3}}, grant["access_token"]).json()["access_token"]
    leave_one_attempt(sql, f"session:renew:{grant['session_id']}:12:3", 30)
    assert [edge.post("worker-session", {"renew": True}, job).status_code for _ in range(2)] == [200, 429]
    assert edge.post("worker-session", {"renew": True}, grant["access_token"]).status_code == 200


def test_naming_another_job_each_time_does_not_pass_the_limit_of_a_session(
    edge: Edge, runner: Runner, sql: psycopg.Connection[Any]
) -> None:
    grant = open_session(edge, runner)
    leave_one_attempt(sql, f"session:requests:{grant['session_id']}", 600)
    requests = [{"job": {"id": number, "attempt": 1}} for number in (1, 2)]
    answers = [edge.post("worker-session", body, grant["access_token"]).status_code for body in requests]
    assert answers == [200, 429]


def test_hashing_does_not_block_other_requests(edge: Edge, person: Person) -> None:
    runners = [person.register() for _ in range(2)]
    answered = 0
    with ThreadPoolExecutor(2) as pool:
        work = [pool.submit(edge.post, "worker-session", asking(each, worker_token="no")) for each in runners * 10]
        while not all(each.done() for each in work):
            assert edge.post("worker-session", {}).status_code == 400
            answered += 1
    assert {each.result().status_code for each in work} == {401}
    # Forty comparisons of a tenth of a second each: were they done where requests are read, one would be answered
    # between two of them at most.
    assert answered > 40


@pytest.mark.parametrize(
    "change",
    [
        {"worker_id": "not-a-uuid"},
        {"worker_id": None},
        {"boot_id": 7},
        {"instance": ""},
        {"instance": "a\nb"},
        {"instance": "a" * 101},
        {"facts": []},
        {"facts": {"x": "y" * 40_000}},
        {"worker_token": ""},
        {"worker_token": ["ryw_in_a_list"]},
        {"access_token": "both"},
        {"role": "service_role"},
    ],
)
def test_bad_input_is_named_and_never_repeated(edge: Edge, runner: Runner, change: dict[str, Any]) -> None:
    answer = edge.post("worker-session", asking(runner, **change))
    assert answer.status_code == 400
    assert answer.json()["code"] == "RY422"
    (first, *_) = answer.json()["details"]
    assert first["field"] in answer.json()["message"]
    assert runner.token not in answer.text
    assert "ryw_in_a_list" not in answer.text


@pytest.mark.parametrize("body", [[], None, "text", 7, {}, {"renew": False}, {"job": {"id": -1, "attempt": 1}}])
def test_invalid_bodies_are_refused(edge: Edge, body: Any) -> None:
    assert edge.post("worker-session", body).status_code == 400


def test_other_methods_invalid_json_and_large_bodies_are_refused(edge: Edge) -> None:
    import httpx

    url = f"{edge.url}/worker-session"
    assert httpx.get(url, timeout=30).status_code == 405
    assert httpx.post(url, content=b"{nonsense", timeout=30).status_code == 400
    assert httpx.post(url, content=b'{"a":"' + b"x" * 400_000 + b'"}', timeout=30).status_code == 413
