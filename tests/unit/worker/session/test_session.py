"""The session: opened, renewed, refused, and the lock on its directory."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from tests.unit.worker.fakes import HandClock, Network
from worker.api.transport import Transport
from worker.errors import ExitCode, Fatal, Retryable
from worker.logs.redactor import KnownSecrets
from worker.session.credentials import Credentials
from worker.session.identity import RunnerIdentity, take_identity
from worker.session.session import CONFLICT_WAIT_SECONDS, RunnerSession
from worker.settings.load import load_settings
from worker.settings.model import Settings

pytestmark = pytest.mark.anyio
WORKER = "8a3b1c52-1111-4222-8333-444455556666"
GRANT = {
    "access_token": "jwt-1", "expires_in": 900, "session_id": "s", "instance_id": "i", "publishable_key": "k", "epoch": 1,
    "realtime": {"topics": ["queue:x"]}, "worker": {"name": "r"},
}  # fmt: skip
REFUSED = (401, {"code": "RY401", "message": "The runner is not known.", "hint": "Check WORKER_ID."})
CONFLICT = (409, {"code": "RY409", "message": "Another process is connected.", "hint": "Stop it."})


def settings(**more: str) -> Settings:
    environ = {"WORKER_ID": WORKER, "WORKER_TOKEN": "ryw_secret", "SUPABASE_URL": "http://project.example", **more}
    return load_settings(environ={name: value for name, value in environ.items() if value})


def session(
    network: Network, clock: HandClock, known: KnownSecrets | None = None, **more: str
) -> tuple[RunnerSession, Transport]:
    transport = network.transport()
    identity = RunnerIdentity(WORKER, "one", "b00b1e50-0000-4000-8000-000000000000", Path("/nowhere"))
    return RunnerSession(
        transport, Credentials(settings(**more), transport, known or KnownSecrets()), identity, {"hostname": "h"}, clock
    ), transport


async def test_a_session_is_opened_once_the_server_answers() -> None:
    failed = (500, {"code": "RY500", "message": "The function failed; its log says why."})
    busy = (503, {"code": "RY503", "message": "Too many are signing in."}, {"retry-after": "5"})
    answers = iter([httpx.ConnectError("down"), (503, {}), failed, busy, (429, {}, {"retry-after": "33"}), GRANT])
    network, clock = Network(lambda *_: next(answers)), HandClock()
    opened, transport = session(network, clock)
    grant = await opened.open()
    assert grant.topics == ("queue:x",)
    assert transport.token == "jwt-1"
    assert max(clock.naps) >= 33
    assert network.calls[0][1]["worker_token"] == "ryw_secret"
    assert network.calls[0][1]["boot_id"].startswith("b00b")


@pytest.mark.parametrize("answer", [REFUSED, (400, {"code": "RY422", "message": "bad name"})])
async def test_a_refusal_is_final(answer: Any) -> None:
    opened, _ = session(Network(lambda *_: answer), HandClock())
    with pytest.raises(Fatal) as caught:
        await opened.open()
    assert caught.value.exit_code is ExitCode.REFUSED


ODD = [(404, {"message": "no Route"}), (403, {}), (401, {"message": "Unauthorized"})]


async def test_a_refusal_by_a_proxy_is_waited_out_and_logged() -> None:
    answers = iter([*ODD, GRANT])
    opened, transport = session(Network(lambda *_: next(answers)), HandClock())
    with capture_logs() as told:
        await opened.open()
    hints = [each["hint"] for each in told if each.get("id") == "session_not_opened"]
    assert len(hints) == len(ODD)
    assert transport.url in hints[0]


async def test_a_single_run_gives_up_on_answers_from_a_proxy() -> None:
    opened, _ = session(Network(lambda *_: ODD[0]), HandClock())
    with pytest.raises(Fatal) as caught:
        await opened.open(give_up_after=30)
    assert caught.value.exit_code is ExitCode.UNREACHABLE


@pytest.mark.parametrize("odd", ODD)
async def test_a_refusal_by_a_proxy_does_not_end_a_session_that_is_being_reopened(odd: Any) -> None:
    answers = iter([GRANT, REFUSED, odd])
    opened, _ = session(Network(lambda *_: next(answers)), HandClock())
    await opened.open()
    with pytest.raises(Retryable):
        await opened.renew()


async def test_a_proxys_refusal_of_an_accounts_token_is_waited_out() -> None:
    answers = iter([*ODD, {"access_token": "account"}, GRANT])
    opened, _ = session(
        Network(lambda *_: next(answers)), HandClock(), WORKER_TOKEN="", WORKER_CLIENT_ID="ci", WORKER_CLIENT_SECRET="x"
    )
    await opened.open()
    assert next(answers, None) is None


async def test_a_conflict_is_waited_out_for_a_while_then_given_up() -> None:
    clock = HandClock()
    opened, _ = session(Network(lambda *_: CONFLICT), clock)
    with pytest.raises(Fatal) as caught:
        await opened.open()
    assert caught.value.exit_code is ExitCode.CONFLICT
    assert clock.time - 1000 > CONFLICT_WAIT_SECONDS


async def test_a_single_run_gives_up_on_a_silent_server() -> None:
    opened, _ = session(Network(lambda *_: httpx.ConnectError("down")), HandClock())
    with pytest.raises(Fatal) as caught:
        await opened.open(give_up_after=30)
    assert caught.value.exit_code is ExitCode.UNREACHABLE


async def test_odd_answers_to_a_renewal_end_nothing() -> None:
    """Such as of a gateway in an upgrade: running jobs continue, and the renewal is tried again."""
    answers = iter([GRANT, (404, {"message": "no such function"}), (400, {"code": "PGRST202"}), (418, {})])
    network = Network(lambda *_: next(answers, {**GRANT, "access_token": "jwt-2"}))
    clock = HandClock()
    opened, transport = session(network, clock)
    await opened.open()
    renewing = asyncio.create_task(opened.keep_fresh())
    async with asyncio.timeout(180):
        while transport.token != "jwt-2":
            await asyncio.sleep(0)
            assert not renewing.done(), renewing.exception()
    renewing.cancel()


async def test_renewal_uses_the_session_and_not_the_token() -> None:
    network = Network(lambda _, body: {**GRANT, "access_token": "jwt-2"} if body.get("renew") else GRANT)
    opened, transport = session(network, HandClock())
    await opened.open()
    await opened.renew()
    assert transport.token == "jwt-2"
    assert "worker_token" not in json.dumps(network.calls[1][1])


async def test_a_session_that_cannot_be_renewed_is_opened_again() -> None:
    network = Network(lambda _, body: REFUSED if body.get("renew") else GRANT)
    opened, _ = session(network, HandClock())
    await opened.open()
    await opened.renew()
    assert [bool(body.get("renew")) for _, body in network.calls] == [False, True, False]


async def test_a_renewal_ends_the_process_when_another_one_is_connected() -> None:
    answers = iter([GRANT, REFUSED, CONFLICT])
    opened, _ = session(Network(lambda *_: next(answers)), HandClock())
    await opened.open()
    with pytest.raises(Fatal) as caught:
        await opened.renew()
    assert caught.value.exit_code is ExitCode.CONFLICT


async def test_a_service_account_exchanges_its_secret_first() -> None:
    network = Network(lambda name, _: {"access_token": "account"} if name == "service-account-token" else GRANT)
    opened, _ = session(network, HandClock(), WORKER_TOKEN="", WORKER_CLIENT_ID="ci", WORKER_CLIENT_SECRET="shh")
    await opened.open()
    assert network.calls[0][1] == {"grant_type": "client_credentials", "client_id": "ci", "client_secret": "shh"}
    assert network.calls[1][1]["access_token"] == "account"


async def test_a_helpers_token_is_exchanged(tmp_path: Path) -> None:
    helper = tmp_path / "helper"
    helper.write_text("#!/bin/sh\necho token-for-$1\n")
    helper.chmod(0o755)
    network = Network(lambda name, _: {"access_token": "account"} if name == "service-account-token" else GRANT)
    opened, _ = session(
        network, HandClock(), WORKER_TOKEN="", RUNYARD_CREDENTIAL_HELPER_CMD_PATH=str(helper),
        RUNYARD_CREDENTIAL_HELPER_CMD_ARGS="'aud one'", RUNYARD_SERVICE_ACCOUNT_PATH="group/sa",
    )  # fmt: skip
    await opened.open()
    assert network.calls[0][1]["subject_token"] == "token-for-aud one"
    assert network.calls[0][1]["client_id"] == "group/sa"
    assert network.calls[0][1]["worker_id"] == WORKER, "it tells in which organisation the path is"


async def test_an_accounts_path_is_sent_with_the_organisation_that_is_set() -> None:
    network = Network(lambda name, _: {"access_token": "account"} if name == "service-account-token" else GRANT)
    opened, _ = session(
        network, HandClock(), WORKER_TOKEN="", WORKER_CLIENT_SECRET="shh", RUNYARD_SERVICE_ACCOUNT_PATH="group/sa",
        WORKER_ORGANIZATION_ID=WORKER,
    )  # fmt: skip
    await opened.open()
    assert network.calls[0][1]["client_id"] == f"{WORKER}:group/sa"
    assert "worker_id" not in network.calls[0][1]


def test_a_second_process_with_the_same_directory_is_refused(tmp_path: Path) -> None:
    first = take_identity(WORKER, "one", tmp_path)
    with pytest.raises(Fatal) as caught:
        take_identity(WORKER, "one", tmp_path)
    assert caught.value.exit_code is ExitCode.CONFLICT
    assert take_identity(WORKER, "two", tmp_path).home != first.home


def test_the_boot_id_is_kept_on_this_machine_only(tmp_path: Path) -> None:
    import os

    first = take_identity(WORKER, "one", tmp_path)
    boot = first.home / "boot.json"
    stored = json.loads(boot.read_text())
    assert stored["boot_id"] == first.boot_id
    copied = tmp_path / "copy"
    (copied / "instances").mkdir(parents=True)
    os.system(f"cp -r {first.home} {copied}/instances/")
    assert take_identity(WORKER, "one", copied).boot_id == first.boot_id
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "instances").mkdir(parents=True)
    os.system(f"cp -r {first.home} {elsewhere}/instances/")
    (elsewhere / "instances" / first.home.name / "boot.json").write_text(json.dumps({**stored, "host": "another"}))
    assert take_identity(WORKER, "one", elsewhere).boot_id != first.boot_id


def test_a_directory_that_cannot_be_written_is_a_setting_to_correct(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Fatal) as caught:
        take_identity(WORKER, "one", tmp_path / "file")
    assert caught.value.exit_code is ExitCode.SETTINGS
