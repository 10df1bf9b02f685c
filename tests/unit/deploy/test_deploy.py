"""The files that start a runner use settings that the runner understands."""

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from cli.engines.catalog import ENGINES
from worker.cloud.service import COMMAND
from worker.errors import ExitCode
from worker.settings.sources import path_of_variable
from worker.version import __version__

DEPLOY = Path(__file__).parents[3] / "deploy"
CHART = DEPLOY / "helm" / "runyard-worker"
OTHER_VARIABLES = {"RUNYARD_SETTINGS", "RUNYARD_SECRETS"}


def is_understood(variable: str) -> bool:
    return variable in OTHER_VARIABLES or path_of_variable(variable) is not None


def dockerfile() -> str:
    return (DEPLOY / "Dockerfile").read_text()


def test_compose_gives_the_runner_variables_that_it_reads() -> None:
    runner = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["runner"]
    targets = [secret["target"] for secret in runner["secrets"]]
    assert targets == ["WORKER_TOKEN"], "the token is a file below /run/secrets, not a variable"
    assert all(map(is_understood, [*runner["environment"], *targets]))


def test_a_cloud_task_starts_the_images_command() -> None:
    # ECS puts the task's command into the place of the image's CMD, behind its entry point.
    text = dockerfile()
    assert f"CMD {json.dumps(list(COMMAND))}" in text


@pytest.mark.parametrize("name", ["tofu", "terragrunt", "opa"])
def test_the_image_builds_an_engine_as_the_catalogue_does(name: str) -> None:
    engine = ENGINES[name]
    built = re.search(rf"cd {name} && go build (.+?)\s+-o /out/{name} {engine.package}\n", dockerfile(), re.DOTALL)
    assert built
    assert f"-mod=readonly -trimpath -ldflags '{engine.ldflags}'" in built[1]


def test_the_image_runs_as_an_ordinary_user() -> None:
    assert "USER 10001" in dockerfile()


def test_dockerignore_keeps_exactly_the_paths_that_the_image_copies() -> None:
    copies = re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", dockerfile(), re.MULTILINE)
    kept = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = {source.rstrip("/") for line in copies for source in line.split()}
    assert sources == kept
    assert [each for each in sources if not (DEPLOY.parent / each).exists()] == []


def test_the_unit_does_not_restart_after_a_permanent_failure() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "systemd" / "runyard-worker.service")
    service = unit["Service"]
    codes = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert codes == {ExitCode.SETTINGS, ExitCode.REFUSED, ExitCode.SESSION_ENDED}
    assert is_understood(service["LoadCredential"].split(":")[0])
    assert service["User"] == "runyard"
    assert service.keys().isdisjoint({"ProtectKernelTunables", "ProtectProc", "RestrictNamespaces"}), (
        "sandboxes need them"
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "runyard-worker.service").read_text()
    unit = tmp_path / "runyard-worker.service"
    unit.write_text(text.replace("/usr/local/bin/runyard-worker", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert "runyard-worker.service" not in done.stderr, done.stderr


def test_the_chart_has_the_runner_s_version_and_variables() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    names = re.findall(r"- name: ([A-Z][A-Z_]+)$", (CHART / "templates" / "statefulset.yaml").read_text(), re.MULTILINE)
    assert len(names) > 5
    assert all(map(is_understood, names)), names


def render(*options: str) -> list[dict[str, Any]]:
    """Render the chart."""
    values = ["worker.id=7b0b", "worker.url=https://x.example", "worker.token=ryw_x", *options]
    command = ["helm", "template", "demo", str(CHART), *(part for value in values for part in ("--set", value))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@pytest.mark.skipif(shutil.which("helm") is None, reason="needs helm")
def test_replicas_report_their_pods_names() -> None:
    documents = {document["kind"]: document for document in render("replicas=3")}
    assert "Role" not in documents, "without the dispatcher the runner asks nothing of Kubernetes"
    spec = documents["StatefulSet"]["spec"]
    assert spec["replicas"] == 3
    container = spec["template"]["spec"]["containers"][0]
    instance = next(item for item in container["env"] if item["name"] == "WORKER_INSTANCE")
    assert instance["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert "ryw_x" not in yaml.safe_dump(documents["StatefulSet"])


@pytest.mark.skipif(shutil.which("helm") is None, reason="needs helm")
def test_a_service_account_needs_no_secret_in_the_cluster() -> None:
    documents = {document["kind"]: document for document in render(*BY_IDENTITY)}
    assert "Secret" not in documents
    spec = documents["StatefulSet"]["spec"]["template"]["spec"]
    (identity,) = [volume for volume in spec["volumes"] if volume["name"] == "identity"]
    assert identity["projected"]["sources"][0]["serviceAccountToken"]["audience"] == "runyard"
    env = {item["name"]: item.get("value") for item in spec["containers"][0]["env"]}
    assert (env["WORKER_CLIENT_ID"], env["WORKER_IDENTITY_TOKEN_FILE"]) == ("rysa_x", "/var/run/secrets/runyard/token")


BY_IDENTITY = ("worker.token=", "worker.clientId=rysa_x", "worker.identityToken.audience=runyard")


@pytest.mark.skipif(shutil.which("helm") is None, reason="needs helm")
def test_the_dispatcher_gets_the_rights_that_it_uses() -> None:
    documents = {document["kind"]: document for document in render("dispatcher.type=kubernetes")}
    rights = {
        (resource, verb)
        for rule in documents["Role"]["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {("jobs", "create"), ("secrets", "create"), ("pods", "delete")} <= rights
    assert ("secrets", "get") not in rights
