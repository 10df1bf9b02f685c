"""The embedded stack's router: which tokens open a function with `verify_jwt = true`."""

import subprocess
from collections.abc import Iterator

import httpx
import pytest
from joserfc.jwk import ECKey, OctKey

from stack.functions import functions_command, functions_environment
from stack.secrets import Secrets, load_secrets
from stack.settings import Settings
from tests.contract.tokens import signed, unsigned
from tests.integration.edge.conftest import is_up
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

HEALTH = 'Deno.serve(() => new Response("ok"));'


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("router")
    for name, text in {"closed": HEALTH, "health": HEALTH}.items():
        (folder / "supabase" / "functions" / name).mkdir(parents=True)
        (folder / "supabase" / "functions" / name / "index.ts").write_text(text)
    (folder / "supabase" / "config.toml").write_text("[functions.health]\nverify_jwt = false\n")
    [port] = free_ports(1)
    return Settings(home=folder / "home", project=folder, functions_base=port, port_offset=0)


@pytest.fixture(scope="module")
def secrets(settings: Settings) -> Secrets:
    return load_secrets(settings.secrets_file)


@pytest.fixture(scope="module")
def closed(settings: Settings, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    environment = functions_environment(settings, secrets)
    log = tmp_path_factory.mktemp("log") / "log"
    command = functions_command(settings, environment)
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as process:
        try:
            wait_until(lambda: is_up(settings.functions_port, process, log), timeout_seconds=180)
            yield f"{settings.functions_url}/closed"
        finally:
            process.terminate()


def ask(url: str, token: str) -> int:
    return httpx.get(url, headers={"authorization": f"Bearer {token}"}, timeout=60).status_code


def test_only_auths_own_tokens_open_a_closed_function(closed: str, settings: Settings, secrets: Secrets) -> None:
    key, iss = ECKey.import_key(secrets.signing_jwk), settings.auth_issuer
    assert ask(closed, signed(key, "ES256", iss=iss)) == 200
    refused = {
        "another issuer": signed(key, "ES256", iss="https://other.example"),
        "another audience": signed(key, "ES256", iss=iss, aud="others"),
        "no end": signed(key, "ES256", iss=iss, exp=None),
        "expired": signed(key, "ES256", iss=iss, exp=1_700_000_000),
        "the shared secret": signed(OctKey.import_key(secrets.jwt_secret), "HS256", iss=iss),
        "another key": signed(ECKey.generate_key("P-256", private=True), "ES256", iss=iss),
        "no signature": unsigned(iss=iss),
        "no token": "let.me.in",
    }
    assert {what: ask(closed, token) for what, token in refused.items()} == dict.fromkeys(refused, 401)


def test_the_process_does_not_have_the_shared_secret(settings: Settings, secrets: Secrets) -> None:
    assert secrets.jwt_secret not in "".join(functions_environment(settings, secrets).values())
