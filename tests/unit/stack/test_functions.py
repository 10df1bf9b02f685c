"""The functions that are served, their settings, and Deno's permissions."""

import json
import subprocess
from pathlib import Path

import pytest

from stack.errors import StackError
from stack.functions import function_entries, functions_command, functions_environment, functions_fingerprint
from stack.secrets import load_secrets
from stack.settings import Settings


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("open", "closed", "_shared", "off"):
        folder = tmp_path / "supabase" / "functions" / name
        folder.mkdir(parents=True)
        (folder / "index.ts").write_text("Deno.serve(() => new Response());")
    config = "[functions.open]\nverify_jwt = false\n[functions.off]\nenabled = false\n"
    (tmp_path / "supabase" / "config.toml").write_text(config)
    return tmp_path


def test_every_folder_is_served_with_its_own_settings(project: Path) -> None:
    entries = function_entries(project / "supabase")
    assert {name: entry["verify_jwt"] for name, entry in entries.items()} == {"open": False, "closed": True}


def test_a_broken_config_is_named(project: Path) -> None:
    (project / "supabase" / "config.toml").write_text("[functions")
    with pytest.raises(StackError, match=r"config\.toml is not valid TOML"):
        function_entries(project / "supabase")


def test_deno_gets_no_more_than_it_needs(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not for functions")
    settings = Settings(home=project / "home", project=project)
    environment = functions_environment(settings, load_secrets(settings.secrets_file))
    command = functions_command(settings, environment)
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert not {"--allow-all", "-A", "--allow-run", "--allow-write", "--allow-env"} & set(command)
    assert f"--allow-read={project / 'supabase' / 'functions'}" in command


def test_a_function_gets_the_hosted_variables_and_its_own_secrets(project: Path) -> None:
    (project / "supabase" / "functions" / ".env").write_text("# comment\nMY_KEY='a=b'\n")
    settings = Settings(home=project / "home", project=project)
    environment = functions_environment(settings, load_secrets(settings.secrets_file))
    hosted = {"SUPABASE_URL", "SUPABASE_ANON_KEY", "SUPABASE_SERVICE_ROLE_KEY", "WORKER_SIGNING_JWK"}
    assert hosted <= environment.keys()
    assert environment["MY_KEY"] == "a=b"


def test_a_changed_function_is_noticed(project: Path) -> None:
    before = functions_fingerprint(project / "supabase")
    (project / "supabase" / "functions" / "open" / "extra.ts").write_text("export {}")
    assert functions_fingerprint(project / "supabase") != before


def test_hosts_inside_are_a_comma_separated_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNYARD_FUNCTIONS_ALLOW_NET", "vault.corp.example, 10.0.0.7:8200")
    assert Settings().functions_allow_net == ["vault.corp.example", "10.0.0.7:8200"]


HOSTS = ["hooks.slack.com:443", "8.8.8.8", "127.0.0.1:54321", "10.1.2.3", "172.20.0.1", "192.168.1.1", "169.254.169.254",
         "168.63.129.16", "100.64.0.1", "[::1]"]  # fmt: skip


def reachable(settings: Settings, tmp_path: Path) -> list[str]:
    """Find out from Deno itself, with the stack's own arguments, to which hosts it would connect."""
    script = tmp_path / "query.ts"
    query = 'Deno.permissions.querySync({ name: "net", host }).state === "granted"'
    script.write_text(f"console.log(JSON.stringify({json.dumps(HOSTS)}.filter((host) => {query})))")
    command = functions_command(settings, {"PATH": ""})[:-1]
    done = subprocess.run([*command, str(script)], capture_output=True, text=True, check=True, timeout=120)
    return list(json.loads(done.stdout))


def test_functions_reach_the_public_internet_and_no_network_inside(tmp_path: Path) -> None:
    assert reachable(Settings(home=tmp_path), tmp_path) == HOSTS[:3]


def test_an_operator_opens_the_networks_inside(tmp_path: Path) -> None:
    assert reachable(Settings(home=tmp_path, allow_private_receivers=True), tmp_path) == HOSTS
    assert reachable(Settings(home=tmp_path, functions_allow_net=["vault.corp"]), tmp_path) == HOSTS


def test_the_functions_do_not_know_the_databases_address(tmp_path: Path) -> None:
    secrets = load_secrets(tmp_path / "secrets.json")
    known = functions_environment(Settings(home=tmp_path), secrets)
    assert [name for name, value in known.items() if "postgres" in value or value == secrets.password("postgres")] == []
