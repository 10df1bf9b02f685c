"""A runner that does exactly what a test says, over the real protocol: token, session, claims, reports, logs, state."""

import base64
import hashlib
import uuid
from typing import Any

import bcrypt
import httpx

from tests.e2e.product import Person, Product

TOKEN = "ryw_" + "a" * 43


class ScriptedRunner:
    """One connected instance of a registered runner."""

    def __init__(
        self,
        product: Product,
        person: Person,
        name: str = "bench-1",
        token: str = "",
        instance: str = "",
        capacity: int = 4,
    ) -> None:
        """Exchange the token for a session; without one, register first."""
        self._product = product
        self._running: dict[int, int] = {}
        self._capacity = capacity
        self.worker = self._found(person, name) if token else self._registered(person, name)
        self._token = self._sign_in(instance or name, token or TOKEN)
        self.heartbeat()

    def _found(self, person: Person, name: str) -> Any:
        arguments = {"p_org": person.org_id, "p_search": name}
        [worker] = self._product.rpc(person.token, "list_runners", arguments)["rows"]
        return worker

    def _registered(self, person: Person, name: str) -> Any:
        arguments = {
            "p_org": person.org_id,
            "p_name": name,
            "p_token_hash": bcrypt.hashpw(TOKEN.encode(), bcrypt.gensalt(8)).decode(),
            "p_token_hint": TOKEN[-4:],
            "p_options": {"capacity": self._capacity, "is_assigned_to_all_modules": True},
        }
        return self._product.rpc(person.token, "register_worker", arguments)

    def _sign_in(self, name: str, token: str) -> str:
        facts = {"hostname": "bench", "engines": {"tofu": "1.10.5"}, "capacity": self._capacity, "clouds": ["aws"]}
        body = {
            "worker_id": self.worker["id"],
            "worker_token": token,
            "instance": name,
            "boot_id": str(uuid.uuid4()),
            "facts": facts,
        }
        stack = self._product.stack
        headers = {"apikey": stack.publishable_key}
        answer = httpx.post(f"{stack.url}/functions/v1/worker-session", json=body, headers=headers, timeout=60)
        assert answer.is_success, answer.text
        return str(answer.json()["access_token"])

    def _call(self, name: str, **arguments: Any) -> Any:
        return self._product.rpc(self._token, name, arguments)

    def heartbeat(self) -> Any:
        """Send a heartbeat."""
        running = [{"job": job, "attempt": attempt} for job, attempt in self._running.items()]
        return self._call("worker_heartbeat", p_status="ONLINE", p_version="1.8.2", p_running=running)

    def leave(self) -> Any:
        """End the session, as a process does that receives a signal to stop."""
        return self._call("worker_close_session", p_reason="stopped")

    def claim(self, number: int = 0) -> dict[str, Any]:
        """Take the next job, which must be there; with a number, end what other tests left in its way."""
        self.heartbeat()
        answer = self._call("worker_claim", p_request_id=str(uuid.uuid4()), p_slots=1)
        [job] = answer["jobs"]
        self._hold(job)
        if number and job["number"] != number:
            self.finish(job, "FAILED")
            return self.claim(number)
        return dict(job)

    def client(self) -> httpx.Client:
        """A client for calls of its own, which keeps its connections."""
        stack = self._product.stack
        headers = {"apikey": stack.publishable_key, "Authorization": f"Bearer {self._token}"}
        return httpx.Client(base_url=f"{stack.url}/rest/v1/rpc/", headers=headers, timeout=60)

    def _hold(self, job: dict[str, Any]) -> None:
        """Keep it for as long as a test takes: nobody sends heartbeats meanwhile, and none is missing."""
        self._running[job["id"]] = job["attempt"]
        self._product.sql(
            "update private.live_jobs set lease_until = now() + interval '1 hour' where job_id = %s", job["id"]
        )

    def report(self, job: dict[str, Any], phase: str, steps: list[dict[str, Any]]) -> Any:
        """Report the phase and the steps."""
        return self._call("worker_report", p_job=job["id"], p_attempt=job["attempt"], p_phase=phase, p_steps=steps)

    def log(self, job: dict[str, Any], seq: int, step: str, body: str) -> Any:
        """Send one chunk of the log."""
        chunks = [{"seq": seq, "step": step, "body": body}]
        return self._call("worker_append_logs", p_job=job["id"], p_attempt=job["attempt"], p_chunks=chunks)

    def artifact(self, job: dict[str, Any], name: str, body: bytes) -> Any:
        """Leave a file for another job, or for the reviewer of this one."""
        encoded, digest = base64.b64encode(body).decode(), hashlib.sha256(body).hexdigest()
        about = {"p_job": job["id"], "p_attempt": job["attempt"], "p_name": name}
        return self._call("worker_put_artifact", **about, p_body_base64=encoded, p_sha256=digest)

    def lock(self, job: dict[str, Any]) -> str:
        """Lock the state as an engine does; returns the lock's id."""
        lock_id = str(uuid.uuid4())
        info = {"ID": lock_id, "Operation": "apply", "Who": "bench", "Created": "2026-11-15T14:00:00Z"}
        self._call("worker_state_lock", p_job=job["id"], p_attempt=job["attempt"], p_lock=info)
        return lock_id

    def finish(
        self, job: dict[str, Any], status: str, last_seq: int = 0, summary: Any = None, result: Any = None
    ) -> Any:
        """End the job."""
        self._running.pop(job["id"], None)
        return self._call(
            "worker_finish",
            p_job=job["id"],
            p_attempt=job["attempt"],
            p_status=status,
            p_result=result,
            p_error=None,
            p_plan_summary=summary,
            p_log={"last_seq": last_seq, "bytes": 0, "sha256": ""},
        )

    def vanish(self, job: dict[str, Any]) -> None:
        """Be lost while the job runs: what the sweep does when the lease has run out, without the wait."""
        self._running.pop(job["id"], None)
        self._product.sql("select private.lose_job(%s, %s)", job["id"], "No heartbeat for 60 s")
