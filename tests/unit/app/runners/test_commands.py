"""The commands that fetch, start and update a runner are complete, and their files can be checked."""

import os
import pty
import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from app.frame.releases import files
from app.runners.view import commands
from tests.support.waiting import wait_until

# Three ways to prove a runner's identity; each command must work with each of them.
TOKEN = commands.Launch("https://p.example.com", "an-id", "%TOKEN%", "r", "1.8.2")
PROOFS = {
    "token": TOKEN,
    "secret": replace(TOKEN, token="", client_id="rysa_x", proof="secret"),
    "identity": replace(TOKEN, token="", client_id="rysa_x", proof="identity"),
}
each_proof = pytest.mark.parametrize("launch", PROOFS.values(), ids=PROOFS)


def test_every_start_command_contains_url_id_and_token() -> None:
    launch = commands.Launch("https://p.example.com", "an-id", "%TOKEN%", "build-host-03", "1.8.2")
    written = commands.commands(launch)
    assert tuple(written) == commands.WAYS
    for text in written.values():
        assert all(needed in text for needed in ("https://p.example.com", "an-id", "%TOKEN%"))


@pytest.mark.parametrize("proof", ["secret", "identity"])
def test_with_a_service_account_no_command_contains_a_secret(proof: str) -> None:
    launch = commands.Launch("https://p.example.com", "an-id", "", "r", "1.8.2", client_id="rysa_x", proof=proof)
    written = commands.commands(launch)
    assert tuple(written) == commands.WAYS
    for way, text in written.items():
        assert all(needed in text for needed in ("https://p.example.com", "an-id", "rysa_x")), way
        assert "WORKER_TOKEN" not in text, way
        assert "%TOKEN%" not in text, way
        assert ("secret" in text.lower()) or proof == "identity", way
    assert ("identityToken.audience=runyard" in written["Kubernetes"]) is (proof == "identity")
    run = subprocess.run(["bash", "-n"], input=written["systemd"], text=True, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr


@each_proof
def test_an_image_that_no_registry_has_is_built_first(launch: commands.Launch) -> None:
    for way in ("Docker", "Compose", "Kubernetes"):
        assert "docker build --file deploy/Dockerfile" in commands.commands(launch)[way]
    own = commands.commands(replace(launch, image="registry.internal/runyard-worker"))
    for way in ("Docker", "Compose"):
        assert "registry.internal/runyard-worker:1.8.2" in own[way]
        assert "docker build" not in own[way]
    assert "--set image.repository=registry.internal/runyard-worker --set image.tag=1.8.2" in own["Kubernetes"]


@each_proof
def test_the_cluster_commands_push_the_default_image_and_not_an_own_one(launch: commands.Launch) -> None:
    pushed = "docker push registry.example/runyard-worker:1.8.2"
    assert pushed in commands.commands(launch)["Kubernetes"]
    assert pushed in commands.update("1.8.2", [])["Kubernetes"]
    own = "registry.internal/runyard-worker"
    assert "docker push" not in commands.commands(replace(launch, image=own))["Kubernetes"]
    assert "docker push" not in commands.update("1.8.2", [], own)["Kubernetes"]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine on which nobody has to prove to be root; the release's file records its start."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "bin" / "sudo").chmod(0o755)
    (tmp_path / "release").write_text('#!/bin/sh\necho "$1 $WORKER_ID $WORKER_TOKEN" >> started\n')
    return tmp_path


def environment_of(machine: Path) -> dict[str, str]:
    return {"PATH": f"{machine / 'bin'}:/usr/bin:/bin", "HOME": str(machine)}


def paste_on(machine: Path, digest: str) -> list[str]:
    """Paste the command of a release with one file; the lines that the runner wrote when it started."""
    artifact = {"name": "runyard-worker-linux-x86_64", "url": "https://example.com/w", "sha256": digest}
    [file] = files.files_of({"artifacts": [artifact]})
    text = commands.paste("Shell", commands.commands(TOKEN)["Shell"], file["commands"])
    text = text.replace("https://example.com/w", f"file://{machine}/release")
    text = text.replace(files.BINARY, str(machine / "bin" / "runyard-worker"))
    subprocess.run(["bash", "-c", text], cwd=machine, env=environment_of(machine), capture_output=True, check=False)
    started = machine / "started"
    return started.read_text().splitlines() if started.exists() else []


def test_one_paste_installs_and_starts_the_runner_and_again_only_starts_it(machine: Path) -> None:
    release = machine / "release"
    digest = sha256(release.read_bytes()).hexdigest()
    assert paste_on(machine, "0" * 64) == [], "its checksum is another one"
    assert paste_on(machine, digest) == ["run an-id %TOKEN%"]
    release.unlink()
    assert paste_on(machine, digest) == ["run an-id %TOKEN%"] * 2


def test_no_line_that_is_pasted_becomes_the_secret(machine: Path) -> None:
    """In a terminal, the rest of the paste is the next input of a command that reads."""
    program = machine / "bin" / "runyard-worker"
    program.write_text('#!/bin/sh\ncat "$WORKER_CLIENT_SECRET_FILE" > started\n')
    program.chmod(0o755)
    ours, theirs = pty.openpty()
    shell = ["bash", "--norc", "--noediting", "-i"]
    process = subprocess.Popen(
        shell, cwd=machine, env=environment_of(machine), stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.write(ours, commands.paste("Shell", commands.commands(PROOFS["secret"])["Shell"], "false\n").encode())
    wait_until((machine / "runyard.secret").exists)
    os.write(ours, b"the-secret\n\x04")
    wait_until(lambda: (machine / "started").exists() and (machine / "started").read_text() == "the-secret\n")
    process.kill()
    process.wait()
    os.close(ours)
    os.close(theirs)


@each_proof
def test_a_service_loads_its_credential(launch: commands.Launch) -> None:
    written = commands.commands(launch)["systemd"]
    loaded = {"token": "WORKER_TOKEN:/etc/runyard/token", "secret": "WORKER_CLIENT_SECRET:/etc/runyard/secret"}
    assert [f"LoadCredential={one}" in written for one in loaded.values()] == [launch.proof == one for one in loaded]
    assert ("WORKER_IDENTITY_TOKEN_FILE=" in written) is (launch.proof == "identity")


@each_proof
def test_compose_files_are_yaml_that_mounts_the_runners_credential(launch: commands.Launch) -> None:
    _, document, after = commands.commands(launch)["Compose"].replace("<<'EOF'", "EOF").split("EOF\n")
    assert after == "docker compose up -d\n"
    [service] = (read := yaml.safe_load(document))["services"].values()
    account = {"WORKER_CLIENT_ID": "rysa_x"} if launch.client_id else {}
    place = "/var/run/secrets/runyard/token"
    if launch.proof == "identity":
        assert service["volumes"][1].endswith(f":{place}:ro")
        account["WORKER_IDENTITY_TOKEN_FILE"] = place
    else:
        [used] = service["secrets"]
        assert (used["target"], list(read["secrets"])) == (
            "WORKER_TOKEN" if launch.proof == "token" else "WORKER_CLIENT_SECRET",
            [used["source"]],
        )
    assert service["environment"] == {"SUPABASE_URL": launch.url, "WORKER_ID": launch.worker_id, **account}


@each_proof
def test_no_command_shows_a_token_in_the_list_of_processes(launch: commands.Launch) -> None:
    written = commands.commands(launch)
    for way in ("Docker", "Compose", "systemd", "Kubernetes"):
        shown = [line for line in written[way].splitlines() if "%TOKEN%" in line]
        assert all("printf %s %TOKEN% | " in line for line in shown), way
        run = subprocess.run(["bash", "-n"], input=written[way], text=True, capture_output=True, check=False)
        assert run.returncode == 0, run.stderr


@each_proof
def test_a_container_is_not_sent_to_its_own_loopback(launch: commands.Launch) -> None:
    written = commands.commands(replace(launch, url="http://127.0.0.1:54321"))
    for way, told in (("Docker", "--add-host host.docker.internal:host-gateway"), ("Compose", "extra_hosts:")):
        assert "127.0.0.1" not in written[way]
        assert "http://host.docker.internal:54321" in written[way]
        assert told in written[way]
    assert "put an address there that the cluster reaches" in written["Kubernetes"]
    assert "127.0.0.1" in written["Shell"]


def test_the_three_ways_to_update_are_three_texts() -> None:
    written = commands.update("1.10.0", [])
    assert [way for way, text in written.items() if "helm upgrade" in text] == ["Kubernetes"]
    assert [way for way, text in written.items() if "docker compose up" in text] == ["Compose"]
    assert [way for way, text in written.items() if "systemctl restart" in text] == ["systemd"]


def test_systemd_installs_the_unit_that_it_enables() -> None:
    launch = commands.Launch("https://p.example.com", "an-id", "%TOKEN%", "build-host-03", "1.8.2")
    written = commands.commands(launch)["systemd"]
    unit = commands.UNIT_FILE.read_text()
    assert f"/etc/systemd/system/runyard-worker.service >/dev/null <<'EOF'\n{unit}EOF\n" in written
    assert written.index("useradd") < written.index("daemon-reload") < written.index("enable --now")
    run = subprocess.run(["bash", "-n"], input=written, text=True, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr


ARTIFACT = {"name": "runyard-worker-linux-x86_64", "url": "https://example.com/w", "sha256": "ab" * 32}


def test_a_releases_files_are_fetched_checked_and_installed() -> None:
    releases = [
        {"version": "1.9.0", "channel": "stable", "artifacts": [{**ARTIFACT, "url": "https://example.com/old"}]},
        {"version": "1.10.0", "channel": "stable", "artifacts": [ARTIFACT]},
        {"version": "2.0.0", "channel": "beta", "artifacts": []},
    ]
    [file] = files.newest_files(releases)
    assert (file["url"], file["sha256"]) == ("https://example.com/w", "ab" * 32)
    fetch, check, install = file["commands"].splitlines()
    assert "https://example.com/w" in fetch
    assert "ab" * 32 in check
    assert check.endswith("&&")
    assert install.endswith("/usr/local/bin/runyard-worker")
    assert file["commands"] in commands.update("1.10.0", [file])["systemd"]


def test_a_wheels_checksum_is_compared_by_pip() -> None:
    wheel = {**ARTIFACT, "name": "runyard_worker-1.10.0-py3-none-any.whl"}
    [file] = files.files_of({"artifacts": [wheel]})
    assert f"https://example.com/w#sha256={'ab' * 32}" in file["commands"]


@pytest.mark.parametrize("broken", [{"url": "javascript:alert(1)"}, {"url": "http://example.com/w"}, {"sha256": "x"}])
def test_a_file_that_cannot_be_checked_is_not_offered(broken: dict[str, str]) -> None:
    assert files.files_of({"artifacts": [{**ARTIFACT, **broken}]}) == []


def test_an_address_stays_one_word_of_the_command() -> None:
    [file] = files.files_of({"artifacts": [{**ARTIFACT, "url": "https://example.com/w?a=1;rm -rf ~"}]})
    assert "'https://example.com/w?a=1;rm -rf ~'" in file["commands"]


def test_without_files_a_shell_starts_the_runner_of_the_clone_and_a_service_a_built_file() -> None:
    written = {way: commands.paste(way, commands.commands(TOKEN)[way], "") for way in commands.FROM_CLONE}
    assert "make setup\n  PATH=$PWD/.venv/bin:$PATH\n}" in written["Shell"]
    assert ["make worker-binary" in written[way] for way in commands.FROM_CLONE] == [False, True]


def test_without_files_the_update_is_built_from_a_clone() -> None:
    written = commands.update("1.10.0", [])["systemd"]
    assert "make worker-binary" in written
    assert "pip install" not in written
