"""Secrets that are read where they are kept, each time they are needed: rotation needs no restart."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.dispatch.serving import Call, serve
from tests.unit.worker.session.test_session import GRANT, HandClock, Network, session
from worker.errors import Retryable
from worker.logs.redactor import KnownSecrets
from worker.settings.load import load_settings
from worker.vaults import read_secret

BASE = {"WORKER_ID": "8a3b1c52-0000-4000-8000-000000000000", "SUPABASE_URL": "https://x.example"}


class Vault:
    """HashiCorp Vault's key-value engines, versions 1 and 2, for one token."""

    def __init__(self) -> None:
        self.fields = {"token": "ryw_first"}
        self.address = ""

    def version_two(self, call: Call) -> tuple[int, Any]:
        if call.headers.get("x-vault-token") != "s.right":
            return 403, {"errors": ["permission denied"]}
        return 200, {"data": {"data": self.fields, "metadata": {"version": 3}}}

    def version_one(self, call: Call) -> tuple[int, Any]:
        return 200, {"data": self.fields}


@pytest.fixture
def vault() -> Iterator[Vault]:
    made = Vault()
    routes = {"GET /v1/secret/data/runyard": made.version_two, "GET /v1/kv/runyard": made.version_one}
    with serve(routes) as address:
        made.address = f"http://{address}/v1"
        yield made


async def test_vault_returns_the_current_value_of_a_field(vault: Vault) -> None:
    environ = {"VAULT_TOKEN": "s.right"}
    for place in ("secret/data/runyard", "kv/runyard"):
        vault.fields = {"token": "ryw_first"}
        assert await read_secret(f"{vault.address}/{place}#token", environ) == "ryw_first"
        vault.fields = {"token": "ryw_second"}
        assert await read_secret(f"{vault.address}/{place}#token", environ) == "ryw_second"


async def test_an_answer_without_an_end_is_not_kept(vault: Vault) -> None:
    vault.fields = {"token": "x" * 2_000_000}
    with pytest.raises(Retryable, match="more than 1,048,576 bytes"):
        await read_secret(f"{vault.address}/secret/data/runyard#token", {"VAULT_TOKEN": "s.right"})


async def test_failures_of_vault_are_reported(vault: Vault, tmp_path: Path) -> None:
    file = tmp_path / "vault-token"
    file.write_text("s.wrong")
    wrong = {
        "answered 403": (f"{vault.address}/secret/data/runyard#token", {"VAULT_TOKEN_FILE": str(file)}),
        "has no field 'value'": (f"{vault.address}/secret/data/runyard", {"VAULT_TOKEN": "s.right"}),
        "answered 404": (f"{vault.address}/nowhere#token", {"VAULT_TOKEN": "s.right"}),
        "does not answer": ("http://127.0.0.1:9/v1/x#token", {"VAULT_TOKEN": "s.right"}),
        "cannot be read": (f"{vault.address}/x", {"VAULT_TOKEN_FILE": str(tmp_path / "none")}),
    }
    for words, (source, environ) in wrong.items():
        with pytest.raises(Retryable, match=words):
            await read_secret(source, environ)


async def test_a_command_and_a_file_are_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "secret file"
    for text in ("one", "two"):
        file.write_text(f"{text}\n")
        assert await read_secret(f"file:{file}") == text
        assert await read_secret(f"command:cat '{file}'") == text
    file.write_text("")
    with pytest.raises(Retryable, match="is empty"):
        await read_secret(f"file:{file}")
    for command in ("", "false", "/nowhere/at/all"):
        with pytest.raises(Retryable):
            await read_secret(f"command:{command}")


async def test_a_rotated_secret_counts_at_the_next_sign_in(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("first")
    network = Network(lambda name, _: {"access_token": "account"} if name == "service-account-token" else GRANT)
    opened, _ = session(
        network, HandClock(), WORKER_TOKEN="", WORKER_CLIENT_ID="ci", WORKER_CLIENT_SECRET_FILE=str(file)
    )
    await opened.open()
    file.write_text("second")
    await opened.open()
    sent = [body["client_secret"] for name, body in network.calls if name == "service-account-token"]
    assert sent == ["first", "second"]


async def test_an_identity_token_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("signed by the cluster\n")
    network = Network(lambda name, _: {"access_token": "account"} if name == "service-account-token" else GRANT)
    opened, _ = session(
        network, HandClock(), WORKER_TOKEN="", WORKER_CLIENT_ID="ci", WORKER_IDENTITY_TOKEN_FILE=str(file)
    )
    await opened.open()
    assert network.calls[0][1]["subject_token"] == "signed by the cluster"


def test_a_secrets_source_is_read_from_the_settings(tmp_path: Path) -> None:
    (tmp_path / "WORKER_TOKEN").write_text("ryw_a")
    by_folder = load_settings(environ=BASE, secrets_directory=tmp_path)
    assert by_folder.runner.token_from == f"file:{tmp_path / 'WORKER_TOKEN'}"
    by_variable = load_settings(environ={**BASE, "WORKER_TOKEN": "ryw_b"}, secrets_directory=tmp_path)
    assert (by_variable.runner.token_from, by_variable.runner.token.get_secret_value()) == ("", "ryw_b")  # type: ignore[union-attr]
    by_command = load_settings(environ={**BASE, "WORKER_TOKEN_COMMAND": "vault kv get x"})
    assert by_command.runner.token_from == "command:vault kv get x"
    account = {**BASE, "WORKER_CLIENT_ID": "ci", "WORKER_CLIENT_SECRET_FROM": "https://v.example/v1/x#y"}
    assert load_settings(environ=account).runner.credentials.client_secret_from == "https://v.example/v1/x#y"


@pytest.mark.parametrize("source", ["x", "ftp://x.example/y", ""])
async def test_a_wrong_place_is_reported(source: str) -> None:
    with pytest.raises(Retryable, match="is not a place for a secret"):
        await read_secret(source, {"VAULT_TOKEN": "x"})


@pytest.mark.parametrize("kind", ["vault", "command", "file", "helper", "identity"])
async def test_a_secret_is_masked_in_every_log_before_it_is_used(
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("VAULT_TOKEN", "s.right")
    known, file = KnownSecrets(), tmp_path / "secret"
    of_the_process, of_a_running_job = known.redactor(), known.redactor()
    secret = f"plain words of a {kind}"
    file.write_text(secret)
    vault.fields = {"secret": secret}
    (tmp_path / "helper").write_text(f"#!/bin/sh\ncat {file}\n")
    (tmp_path / "helper").chmod(0o755)
    variables = {
        "vault": {"WORKER_CLIENT_SECRET_FROM": f"{vault.address}/kv/runyard#secret"},
        "command": {"WORKER_CLIENT_SECRET_FROM": f"command:cat {file}"},
        "file": {"WORKER_CLIENT_SECRET_FROM": f"file:{file}"},
        "helper": {"RUNYARD_CREDENTIAL_HELPER_CMD_PATH": str(tmp_path / "helper")},
        "identity": {"WORKER_IDENTITY_TOKEN_FILE": str(file)},
    }[kind]
    sent: list[str] = []

    def answer(name: str, body: dict[str, Any]) -> Any:
        if name == "service-account-token":
            sent.append(of_a_running_job.redact(body.get("client_secret") or body["subject_token"]))
            return {"access_token": "an account's token"}
        return GRANT

    opened, _ = session(Network(answer), HandClock(), known, WORKER_TOKEN="", WORKER_CLIENT_ID="ci", **variables)
    await opened.open(give_up_after=1)
    assert sent == ["***"]
    for redactor in (of_the_process, of_a_running_job, known.redactor()):
        assert redactor.redact(f"{secret}, an account's token") == "***, ***"


async def test_the_token_for_vault_is_masked_as_well(vault: Vault) -> None:
    known = KnownSecrets()
    await read_secret(f"{vault.address}/secret/data/runyard#token", {"VAULT_TOKEN": "s.right"}, known.add)
    assert known.redactor().redact("s.right and ryw_first") == "*** and ***"
