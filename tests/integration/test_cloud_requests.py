"""The API of `cloud {}` without the programs: bad input and what is not the caller's end in JSON:API errors."""

import base64
import gzip
import hashlib
import io
import json
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from tests.integration.worker_bench import Bench, open_bench
from tests.support.cloud_terminal import personal_token
from tests.support.stack import RunningStack

JSON_API = {"content-type": "application/vnd.api+json"}
NO_MODULE = "00000000-0000-0000-0000-000000000000"


def ws(module: str) -> str:
    return "ws-" + module.replace("-", "")[:16]


@dataclass
class Api:
    """The API as one token reaches it."""

    url: str
    token: str

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token}", **given.pop("headers", JSON_API)}
        url = path if path.startswith("http") else f"{self.url}/functions/v1/terraform/api/v2/{path}"
        return httpx.request(method, url, headers=headers, timeout=120, **given)

    def made(self, path: str, attributes: dict[str, Any], **relationships: tuple[str, str]) -> httpx.Response:
        related = {
            name.replace("_", "-"): {"data": {"type": kind, "id": at}} for name, (kind, at) in relationships.items()
        }
        return self.ask("POST", path, json={"data": {"attributes": attributes, "relationships": related}})

    def upload_address(self, module: str) -> tuple[str, str]:
        """The id and the address of a new configuration version."""
        data = self.made(f"workspaces/{ws(module)}/configuration-versions", {"auto-queue-runs": False}).json()["data"]
        return data["id"], data["attributes"]["upload-url"]


def refusal(status: int, answer: httpx.Response) -> str:
    """The words of an error in the shape that the programs read."""
    [error] = answer.json()["errors"]
    assert (answer.status_code, error["status"]) == (status, str(status)), answer.text
    return str(error["title"] + error["detail"])


@pytest.fixture
def api(served: Bench, running_stack: RunningStack) -> Api:
    return Api(running_stack.url, personal_token(served))


@pytest.fixture
def module(served: Bench) -> str:
    return served.module(backend="runyard", can_apply_uploads=True)


def packed(*members: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for each in members:
            tar.addfile(each, io.BytesIO(b"\0" * each.size))
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


def backwards() -> bytes:
    """A file whose size is below zero: the next header would be before this one."""
    header = bytearray(member("main.tf").tobuf())
    header[124:156] = b"-7777777777\0" + header[136:148] + b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return gzip.compress(bytes(header).ljust(2048, b"\0"))


def bomb() -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(b"\0" * (1 << 20)) for _ in range(520)) + packer.flush()


# ---------------------------------------------------------------- archives


@pytest.mark.parametrize(
    ("archive", "status", "words"),
    [
        (lambda: b"no archive", 422, "gzip"),
        (lambda: packed(member("main.tf"))[:-12], 422, "cut off"),
        (lambda: packed(member("../x")), 422, "leads out"),
        (lambda: packed(member("/x")), 422, "leads out"),
        (lambda: packed(member("a/b", tarfile.SYMTYPE, "../../etc/passwd")), 422, "leads out"),
        (lambda: packed(member("a", tarfile.SYMTYPE, "/etc/passwd")), 422, "leads out"),
        (lambda: packed(member("a", tarfile.LNKTYPE, "../../etc/passwd")), 422, "neither a file"),
        (lambda: packed(member("x", tarfile.FIFOTYPE)), 422, "neither a file"),
        (lambda: packed(*[member(f"{n}") for n in range(20_001)]), 413, "20000 files"),
        (bomb, 413, "too large"),
        (backwards, 422, "not a tar archive"),
    ],
    ids=["text", "cut", "up", "root", "link", "absolute-link", "hard-link", "pipe", "many", "bomb", "backwards"],
)
def test_an_archive_that_no_runner_should_unpack_is_refused(
    api: Api, module: str, archive: Callable[[], bytes], status: int, words: str
) -> None:
    version, address = api.upload_address(module)
    assert words in refusal(status, httpx.put(address, content=archive(), timeout=120))
    assert api.ask("GET", f"configuration-versions/{version}").json()["data"]["attributes"]["status"] == "pending"


def test_half_a_gigabyte_is_refused_before_it_is_there(api: Api, module: str) -> None:
    sent = 0

    def body() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(500):
            sent += 1
            yield b"\0" * (1 << 20)

    _, address = api.upload_address(module)
    assert "too large" in refusal(413, httpx.put(address, content=body(), timeout=300))
    assert "too large" in refusal(413, api.ask("POST", f"workspaces/{ws(module)}/actions/lock", content=body()))


def test_of_two_uploads_to_one_address_one_is_kept(api: Api, module: str) -> None:
    _, address = api.upload_address(module)

    def put(at: str) -> httpx.Response:
        return httpx.put(at, content=packed(member("main.tf")), timeout=120)

    with ThreadPoolExecutor(2) as pool:
        first, second = sorted(pool.map(put, [address] * 2), key=lambda each: each.status_code)
        assert first.status_code == 200
        assert "already" in refusal(409, second)
        others = [api.upload_address(module)[1] for _ in range(2)]
        assert [each.status_code for each in pool.map(put, others)] == [200, 200]


def test_the_largest_archive_arrives(api: Api, module: str) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", compresslevel=0) as tar:
        file = member("large")
        file.size = 24 << 20
        tar.addfile(file, io.BytesIO(b"\0" * file.size))
    _, address = api.upload_address(module)
    assert httpx.put(address, content=made.getvalue(), timeout=120).status_code == 200


# ---------------------------------------------------------------- requests


def test_a_request_that_is_not_understood_is_refused_by_name(api: Api, module: str, served: Bench) -> None:
    place = f"workspaces/{ws(module)}"
    plain = api.ask("POST", f"{place}/actions/lock", content="x", headers={"content-type": "text/plain"})
    assert "text/plain" in refusal(415, plain)
    assert refusal(400, api.ask("POST", f"{place}/actions/lock", content=b"{"))
    for document in ("5", '{"data": "x"}', '{"data": {"attributes": 5}}'):
        assert "is an object" in refusal(422, api.ask("POST", f"{place}/actions/lock", content=document)), document
    _, address = api.upload_address(module)
    assert "text/html" in refusal(415, httpx.put(address, content=b"x", headers={"content-type": "text/html"}))
    job = served.enqueue("PLAN", module)
    assert "Invalid include parameter" in refusal(400, api.ask("GET", f"runs/run-{job}?include=nonsense"))
    assert "search[wildcard-name]" in refusal(
        422, api.ask("GET", f"organizations/{slug_of(served)}/workspaces?search[wildcard-name]=x*")
    )
    for attributes, word in (
        ({"refresh": False}, "refresh"),
        ({"allow-config-generation": True}, "allow-config-generation"),
        ({"variables": [{"key": "who", "value": "${file("}]}, "literal"),
        ({"variables": [{"key": "who", "value": '"\\' * 500_000}]}, "literal"),
        ({"target-addrs": "one"}, "a list of texts"),
    ):
        answer = api.made("runs", attributes, workspace=("workspaces", ws(module)))
        assert word in refusal(422, answer), attributes
    assert "starts no run" in refusal(422, api.made(f"{place}/configuration-versions", {"auto-queue-runs": True}))


def slug_of(bench: Bench) -> str:
    return str(bench.rows("organizations", id=bench.org)[0]["slug"])


@contextmanager
def colleague(bench: Bench, folder: Path, role: str) -> Iterator[Bench]:
    """Somebody who is a member of the bench's organisation for a while: other tests use the organisation too."""
    with open_bench(bench.project, folder) as person:
        email = person.account["email"]
        with bench.database() as database:
            database.execute(
                "insert into memberships (org_id, user_id, email, role) select %s, id, email, %s from auth.users where email = %s",
                (bench.org, role, email),
            )
        try:
            yield person
        finally:
            with bench.database() as database:
                database.execute("delete from memberships where org_id = %s and email = %s", (bench.org, email))


def state(serial: int, lineage: str = "3f4d2c8e-0000-4000-8000-000000000001") -> dict[str, Any]:
    body = json.dumps({
        "version": 4, "terraform_version": "1.12.6", "serial": serial, "lineage": lineage, "outputs": {}, "resources": [],
    }).encode()  # fmt: skip
    return {
        "serial": serial, "lineage": lineage, "md5": hashlib.md5(body).hexdigest(),
        "state": base64.b64encode(body).decode(),
    }  # fmt: skip


def test_a_state_is_replaced_only_by_its_next_version(api: Api, module: str) -> None:
    place = f"workspaces/{ws(module)}/state-versions"
    assert api.made(place, state(3)).status_code == 201
    assert "not newer than 3" in refusal(409, api.made(place, state(3)))
    assert "not newer than 3" in refusal(409, api.made(place, state(2)))
    assert "lineage" in refusal(409, api.made(place, state(4, "3f4d2c8e-0000-4000-8000-000000000002")))
    assert "MD5" in refusal(422, api.made(place, state(4) | {"md5": "0" * 32}))
    assert "empty: state" in refusal(422, api.made(place, {"serial": 4}))
    assert refusal(422, api.made(place, state(4) | {"state": "not base64!"}))
    kept = api.ask("GET", f"workspaces/{ws(module)}/current-state-version").json()["data"]
    assert kept["attributes"]["serial"] == 3
    assert httpx.get(kept["attributes"]["hosted-state-download-url"], timeout=60).json()["serial"] == 3


def test_a_lock_that_somebody_holds_keeps_others_out(
    api: Api, module: str, served: Bench, running_stack: RunningStack, tmp_path: Path
) -> None:
    with colleague(served, tmp_path, "admin") as admin:
        theirs = Api(running_stack.url, personal_token(admin))
        place = f"workspaces/{ws(module)}"
        assert theirs.made(f"{place}/actions/lock", {"reason": "mine"}).json()["data"]["attributes"]["locked"] is True
        assert "locked already" in refusal(409, api.made(f"{place}/actions/lock", {}))
        assert "locked" in refusal(409, api.made(f"{place}/state-versions", state(1)))
        assert refusal(409, api.made(f"{place}/actions/unlock", {}))
        assert api.made(f"{place}/actions/force-unlock", {}).json()["data"]["attributes"]["locked"] is False
        assert api.made(f"{place}/state-versions", state(1)).status_code == 201


# ---------------------------------------------------------------- discarding


def test_a_discarded_run_is_never_applied(api: Api, module: str, served: Bench) -> None:
    plan = served.finished("PLAN", module)["id"]

    def attributes() -> dict[str, Any]:
        found: dict[str, Any] = api.ask("GET", f"runs/run-{plan}").json()["data"]["attributes"]
        return found

    before = attributes()
    assert (before["status"], before["actions"]["is-discardable"], before["status-timestamps"]) == ("planned", True, {})
    act = f"runs/run-{plan}/actions"
    assert api.ask("POST", f"{act}/discard", json={"comment": "not today"}).status_code == 202
    after = attributes()
    assert (after["status"], list(after["status-timestamps"])) == ("discarded", ["discarded-at"])
    assert not any(after["actions"].values()), after["actions"]
    assert [each["comment"] for each in served.rows("approvals", job_id=plan)] == ["not today"]
    for name in ("apply", "discard"):
        assert "was discarded" in refusal(409, api.made(f"{act}/{name}", {})), name
    assert api.ask("GET", f"workspaces/{ws(module)}/runs").json()["data"][0]["attributes"]["status"] == "discarded"
    assert served.finished("APPLY", module), "the module is free"


def test_only_a_run_that_waits_is_discarded(api: Api, served: Bench) -> None:
    module = served.module(backend="runyard", hooks={"before_plan": "sleep 600"})
    running = served.wait_job(served.enqueue("PLAN", module), "PROCESSING")["id"]
    assert "Cancel it" in refusal(409, api.made(f"runs/run-{running}/actions/discard", {}))
    assert api.made(f"runs/run-{running}/actions/cancel", {}).status_code == 202
    served.wait_job(running)
    assert "CANCELLED" in refusal(409, api.made(f"runs/run-{running}/actions/discard", {}))


def test_discarding_takes_the_right_to_approve(
    api: Api, module: str, served: Bench, running_stack: RunningStack, tmp_path: Path
) -> None:
    run = f"runs/run-{served.finished('PLAN', module)['id']}"
    with colleague(served, tmp_path, "viewer") as viewer:
        theirs = Api(running_stack.url, personal_token(viewer))
        shown = theirs.ask("GET", run).json()["data"]["attributes"]
        assert (shown["actions"]["is-discardable"], shown["permissions"]["can-discard"]) == (False, False)
        assert "job.approve" in refusal(403, theirs.made(f"{run}/actions/discard", {}))
    assert api.ask("GET", run).json()["data"]["attributes"]["status"] == "planned"


# ---------------------------------------------------------------- signed addresses


def test_the_address_of_a_log_is_for_one_log_and_one_hour(
    api: Api, module: str, served: Bench, running_stack: RunningStack
) -> None:
    job = served.finished("PLAN", module)["id"]
    address = api.ask("GET", f"plans/plan-{job}").json()["data"]["attributes"]["log-read-url"]
    assert httpx.get(address, timeout=60).content[:1] == b"\x02"
    base, _, text = address.rpartition("/")
    key = ECKey.import_key(running_stack.secrets.signing_jwk)
    token = jwt.decode(text, key)
    assert (token.claims["about"], token.claims["exp"] - token.claims["iat"]) == (f"logs:{job}:plan", 3600)
    assert token.claims["role"] == "link", "no role that REST could take"
    over = jwt.encode(token.header, token.claims | {"exp": int(time.time()) - 1}, key)
    stranger = jwt.encode(token.header, token.claims, ECKey.generate_key("P-256", {"kid": str(key.kid)}))
    for wrong in (over, stranger, f"{text}x"):
        assert "not valid any more" in refusal(404, httpx.get(f"{base}/{wrong}", timeout=60))
    for other in ("states", "uploads"):
        method = "PUT" if other == "uploads" else "GET"
        assert refusal(404, httpx.request(method, address.replace("/logs/", f"/{other}/"), timeout=60))
    assert refusal(401, Api(api.url, text).ask("GET", f"plans/plan-{job}")), "the address opens nothing else"
    [mine] = [each for each in served.rpc("my_personal_tokens") if each["id"] == token.claims["personal_token"]]
    served.rpc("revoke_personal_token", p_token=mine["id"])
    assert refusal(404, httpx.get(address, timeout=60)), "an address ends with the token that asked for it"


# ---------------------------------------------------------------- what is not there for somebody


def paths(organization: str, name: str, module: str, job: int, version: str) -> list[str]:
    place = f"workspaces/{ws(module)}"
    return [
        f"organizations/{organization}/workspaces/{name}", place, f"{place}/runs", f"{place}/vars",
        f"{place}/current-state-version", f"{place}/state-versions", f"{place}/current-state-version-outputs",
        f"state-versions/sv-{module}-1", f"state-version-outputs/wsout-{module}-greeting", f"runs/run-{job}",
        f"runs/run-{job}/run-events", f"plans/plan-{job}", f"applies/apply-{job}", f"policy-checks/polchk-{job}",
        f"configuration-versions/{version}",
    ]  # fmt: skip


def test_what_one_may_not_see_is_not_there(
    api: Api, module: str, served: Bench, running_stack: RunningStack, tmp_path: Path
) -> None:
    job = served.finished("APPLY", module)["id"]
    plan = served.finished("PLAN", module)["id"]
    assert job
    version, _ = api.upload_address(module)
    slug, name = slug_of(served), served.rows("modules", id=module)[0]["path"].replace("/", ".")
    asked = paths(slug, name, module, plan, version)
    mine = {path: api.ask("GET", path).status_code for path in asked}
    assert {path for path, status in mine.items() if status != 200} == {f"policy-checks/polchk-{plan}"}
    with open_bench(running_stack, tmp_path / "a") as stranger, colleague(served, tmp_path / "b", "guest") as guest:
        outside, elsewhere = (Api(running_stack.url, personal_token(each)) for each in (stranger, guest))
        with served.database() as database:
            database.execute(
                "insert into role_bindings (org_id, path, role, user_id) select org_id, 'elsewhere', 'admin', user_id"
                " from memberships where org_id = %s and role = 'guest'",
                (served.org,),
            )
        for who in (elsewhere, outside):
            assert {path: who.ask("GET", path).status_code for path in asked} == dict.fromkeys(asked, 404)
            acts = [f"workspaces/{ws(module)}/actions/lock"]
            acts += [f"runs/run-{plan}/actions/{act}" for act in ("apply", "discard", "cancel")]
            assert [who.made(path, {}).status_code for path in acts] == [404] * 4
        for path in ("", "/entitlement-set", "/workspaces", "/projects", "/capacity", "/runs/queue"):
            assert refusal(404, outside.ask("GET", f"organizations/{slug}{path}")), path
        assert outside.ask("GET", f"organizations/{slug_of(stranger)}/workspaces").json()["data"] == []
        assert elsewhere.ask("GET", f"organizations/{slug}/workspaces").json()["data"] == []
    assert refusal(404, api.ask("GET", f"workspaces/{ws(NO_MODULE)}"))
    assert refusal(401, Api(api.url, "ryp_" + "a" * 43).ask("GET", f"workspaces/{ws(module)}"))
