"""A flood of one organisation's logins: the others are served between them, not behind them."""

import uuid
from concurrent.futures import ThreadPoolExecutor, wait
from statistics import median
from threading import Barrier, Lock

import bcrypt

from tests.integration.edge.conftest import Edge
from tests.integration.edge.people import Person, Runner, make_token

FLOOD = 12


def asking(runner: Runner, token: str) -> dict[str, object]:
    return {"worker_id": runner.id, "worker_token": token, "instance": "one", "boot_id": str(uuid.uuid4())}


def costly_runner(person: Person) -> Runner:
    """A runner whose hash costs more than those of the other organisation."""
    token, _ = make_token()
    digest = bcrypt.hashpw(token.encode(), bcrypt.gensalt(11)).decode()
    named = {"p_name": f"costly-{uuid.uuid4().hex[:8]}", "p_token_hint": token[-4:], "p_options": {}}
    made = person.rpc("register_worker", p_org=person.org_id, p_token_hash=digest, **named)
    return Runner(str(made["id"]), token, person.org_id)


def test_another_organisation_is_served_during_a_flood(edge: Edge, person: Person, runner: Runner) -> None:
    flooded = costly_runner(Person(person.stack))
    served: list[str] = []
    lock, together = Lock(), Barrier(FLOOD)

    def flood() -> int:
        together.wait(60)
        status = edge.post("worker-session", asking(flooded, make_token()[0])).status_code
        with lock:
            served.append("flood")
        return status

    with ThreadPoolExecutor(FLOOD) as pool:
        answers = [pool.submit(flood) for _ in range(FLOOD)]
        wait(answers, timeout=120, return_when="FIRST_COMPLETED")
        mine = edge.post("worker-session", asking(runner, runner.token))
        with lock:
            before = len(served)
    assert mine.status_code == 200
    assert {answer.result() for answer in answers} == {401}
    assert before < FLOOD / 2, f"{before} of the flood's {FLOOD} were served first"


def test_a_repeated_wrong_secret_is_not_computed_again(edge: Edge, runner: Runner) -> None:
    def seconds(token: str) -> float:
        before = edge.cpu_seconds()
        assert edge.post("worker-session", asking(runner, token)).status_code == 401
        return edge.cpu_seconds() - before

    known, _ = make_token()
    seconds(known)
    fresh = median(seconds(make_token()[0]) for _ in range(5))
    assert median(seconds(known) for _ in range(5)) < fresh / 2
