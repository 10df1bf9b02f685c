"""The ways to run the server side name files, variables and exit codes that exist."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from cli.errors import ExitCode
from stack.settings import Settings

DEPLOY = Path(__file__).parents[3] / "deploy"
SERVER = DEPLOY / "server"
CHART = DEPLOY / "helm" / "runyard-server"
HOSTED = ("supabase.url=https://x.example", "supabase.publishableKey=sb_publishable_x")
OTHERS = {"SUPABASE_URL", "SUPABASE_PUBLISHABLE_KEY", "RUNYARD_DASHBOARD_URL"}
VARIABLES = OTHERS | {f"RUNYARD_{name.upper()}" for name in Settings.model_fields}


def test_dockerignore_keeps_exactly_the_paths_that_the_image_copies() -> None:
    text = (SERVER / "Dockerfile").read_text()
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    kept = {line[1:] for line in (SERVER / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = {source.rstrip("/") for line in copies for source in line.split()}
    assert sources == kept
    assert [each for each in sources if not (DEPLOY.parent / each).exists()] == []
    assert "USER 10001" in text


def test_the_image_and_the_wheel_bundle_the_same() -> None:
    text = (SERVER / "Dockerfile").read_text()
    script = (DEPLOY.parent / "scripts" / "wheels.py").read_text()
    bundled = re.search(r"BUNDLED = \((.+?)\)", script, re.DOTALL)
    assert bundled is not None
    names = {Path(name).parts[0] for name in re.findall(r'"([^"]+)"', bundled[1])}
    copied = re.findall(r"^COPY (.+) cli/bundle/\S*$", text, re.MULTILINE)
    assert {Path(name).parts[0] for line in copied for name in line.split()} == names


def test_compose_and_image_set_variables_that_are_read() -> None:
    services = yaml.safe_load((SERVER / "compose.yaml").read_text())["services"]
    named = {name for service in services.values() for name in service["environment"]}
    named |= set(re.findall(r"\b(RUNYARD_\w+)=", (SERVER / "Dockerfile").read_text()))
    assert named <= VARIABLES
    assert all(port.startswith("127.0.0.1:") for service in services.values() for port in service["ports"])


def test_the_unit_sets_variables_that_are_read_and_stops_where_a_restart_cannot_help() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "systemd" / "runyard-server.service")
    service = unit["Service"]
    assert {part.split("=")[0] for part in service["Environment"].split()} <= VARIABLES | {"HOME"}
    assert {ExitCode(int(code)) for code in service["RestartPreventExitStatus"].split()} == {
        ExitCode.USAGE,
        ExitCode.MISSING,
        ExitCode.TAKEN,
        ExitCode.WRONG_VERSION,
        ExitCode.MIGRATION_FAILED,
    }


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "runyard-server.service").read_text()
    unit = tmp_path / "runyard-server.service"
    unit.write_text(text.replace("/usr/local/bin/runyard", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "runyard-server.service" not in done.stderr, done.stderr


def render(*values: str) -> dict[str, Any]:
    """Render the chart; its documents by their kind."""
    command = ["helm", "template", "demo", str(CHART), *(part for value in values for part in ("--set", value))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    return {document["kind"]: document for document in yaml.safe_load_all(done.stdout) if document}


def variables(document: dict[str, Any]) -> dict[str, str]:
    container = document["spec"]["template"]["spec"]["containers"][0]
    return {each["name"]: each["value"] for each in container["env"]}


needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="needs helm")


@needs_helm
def test_a_hosted_project_needs_two_values_and_no_volume() -> None:
    documents = render(*HOSTED)
    assert documents["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"] == ["runyard", "dashboard"]
    found = variables(documents["Deployment"])
    assert (found["SUPABASE_URL"], found["SUPABASE_PUBLISHABLE_KEY"]) == ("https://x.example", "sb_publishable_x")
    assert set(found) <= VARIABLES
    assert [port["name"] for port in documents["Service"]["spec"]["ports"]] == ["dashboard"]


@needs_helm
def test_the_embedded_supabase_has_one_pod_with_a_volume_and_its_api() -> None:
    documents = render("embedded.enabled=true", "ingress.enabled=true", "ingress.host=a.test", "ingress.apiHost=b.test")
    spec = documents["StatefulSet"]["spec"]
    assert spec["volumeClaimTemplates"][0]["metadata"]["name"] == "state"
    found = variables(documents["StatefulSet"])
    assert found["RUNYARD_PUBLIC_URL"] == "http://demo.default.svc:54321"
    assert set(found) <= VARIABLES
    assert [rule["host"] for rule in documents["Ingress"]["spec"]["rules"]] == ["a.test", "b.test"]


@needs_helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((), "supabase.url"),
        (("embedded.enabled=true", "replicas=2"), "one pod"),
        ((*HOSTED, "ingress.enabled=true"), "ingress.host"),
    ],
)
def test_values_that_cannot_work_are_refused(values: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        render(*values)
