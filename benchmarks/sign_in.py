"""Sign-ins of one organisation while another one floods the hashes: tokens of runners at the highest cost, and passwords.

Run as `python -m benchmarks.sign_in`; takes about two minutes.
"""

import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import bcrypt
import httpx

from benchmarks.outcome import Outcome
from tests.integration.edge.people import Person, Runner, make_token
from tests.support.stack import RunningStack, start_stack

SAMPLES = 20
FLOODERS = 24
HIGHEST_COST = 12
AIM = 2.0


@dataclass(frozen=True)
class Caller:
    """Calls the stack's functions and Auth."""

    stack: RunningStack
    http: httpx.Client

    def post(self, path: str, body: Mapping[str, object]) -> int:
        """The status of an answer."""
        headers = {"apikey": self.stack.publishable_key}
        return self.http.post(f"{self.stack.url}{path}", json=body, headers=headers, timeout=120).status_code

    def open_session(self, runner: Runner, token: str) -> int:
        """A runner's sign-in."""
        body = {"worker_id": runner.id, "worker_token": token, "instance": "one", "boot_id": str(uuid.uuid4())}
        return self.post("/functions/v1/worker-session", body)

    def sign_in(self, person: Person) -> int:
        """A person's sign-in."""
        return self.post("/auth/v1/token?grant_type=password", person.credentials)


def costly_runner(person: Person) -> Runner:
    """A runner whose token is as costly to check as the database allows."""
    token, _ = make_token()
    digest = bcrypt.hashpw(token.encode(), bcrypt.gensalt(HIGHEST_COST)).decode()
    named = {"p_name": f"costly-{uuid.uuid4().hex[:8]}", "p_token_hint": token[-4:], "p_options": {}}
    made = person.rpc("register_worker", p_org=person.org_id, p_token_hash=digest, **named)
    return Runner(str(made["id"]), token, person.org_id)


def percentile(seconds: list[float], share: float) -> float:
    """In milliseconds."""
    return round(sorted(seconds)[min(int(len(seconds) * share), len(seconds) - 1)] * 1000, 1)


def timed(call: Callable[[], int]) -> list[float]:
    """Measure the seconds of each sign-in; all must succeed."""
    found = []
    for _ in range(SAMPLES):
        before = time.perf_counter()
        status = call()
        found.append(time.perf_counter() - before)
        if status != 200:
            raise RuntimeError(f"a sign-in was answered with {status}")
    return found


@contextmanager
def flooded(caller: Caller, person: Person) -> Iterator[Counter[int]]:
    """One organisation's wrong tokens of runners and its people's sign-ins, each by half of the threads."""
    runners, over, statuses = [costly_runner(person) for _ in range(FLOODERS // 2)], Event(), Counter[int]()

    def flood(call: Callable[[], int]) -> None:
        while not over.is_set():
            statuses[call()] += 1

    with ThreadPoolExecutor(FLOODERS) as pool:
        for runner in runners:
            pool.submit(flood, lambda runner=runner: caller.open_session(runner, make_token()[0]))
            pool.submit(flood, lambda: caller.sign_in(person))
        while statuses.total() < FLOODERS:
            time.sleep(0.1)
        try:
            yield statuses
        finally:
            over.set()


def sign_ins(caller: Caller, person: Person, runners: Iterator[Runner]) -> dict[str, list[float]]:
    """Both kinds; each runner signs in once, because a token that was right is not hashed again."""
    of_runner = timed(lambda: caller.open_session(runner := next(runners), runner.token))
    return {"person": timed(lambda: caller.sign_in(person)), "runner": of_runner}


def measure(stack: RunningStack, outcome: Outcome) -> None:
    """The same sign-ins without and during the flood."""
    with httpx.Client(limits=httpx.Limits(max_connections=FLOODERS + 4)) as http:
        caller, person = Caller(stack, http), Person(stack)
        runners = iter([person.register() for _ in range(3 * SAMPLES)])
        # The first ones start the threads.
        sign_ins(caller, person, runners)
        alone = sign_ins(caller, person, runners)
        with flooded(caller, Person(stack)) as statuses:
            during = sign_ins(caller, person, runners)
    for name, before in alone.items():
        outcome.parts[name] = row(before, during[name])
        outcome.ratio(name, outcome.parts[name]["ratio"], is_less_better=True)
        print(f"{name:>8}: {outcome.parts[name]}{'' if outcome.parts[name]['ratio'] <= AIM else ' ✗'}")
    outcome.parts["flood"] = {str(status): times for status, times in statuses.items()}
    print(f"   flood: {outcome.parts['flood']}")


def row(alone: list[float], during: list[float]) -> dict[str, float]:
    """Percentiles, and the ratio that counts."""
    found = {
        f"{when}_p{share:.0f}_ms": percentile(seconds, share / 100)
        for share in (50, 95)
        for when, seconds in (("alone", alone), ("flooded", during))
    }
    return found | {"ratio": round(found["flooded_p95_ms"] / found["alone_p95_ms"], 2)}


def main() -> None:
    """Measure, show, keep."""
    outcome = Outcome("sign_in")
    with tempfile.TemporaryDirectory() as folder, outcome.part("the stack"):
        Path(folder).chmod(0o755)
        with start_stack(Path(folder), "--no-dashboard", "--no-demo", RUNYARD_SIGN_UP="open") as stack:
            measure(stack, outcome)
    outcome.keep()


if __name__ == "__main__":
    main()
