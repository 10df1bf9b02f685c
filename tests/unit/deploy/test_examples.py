"""The example files that people copy: every name in them is one that is read."""

import re

import pytest

from cli.runners.shared import read_configuration
from stack.settings import PROJECT
from worker.settings.load import load_settings
from worker.settings.sources import path_of_variable

ASSIGNMENT = re.compile(r"^#?([A-Z_]+)=(.*)$", re.MULTILINE)
PLACEHOLDER = "00000000-0000-0000-0000-000000000000"


def test_the_env_file_names_settings_only() -> None:
    text = (PROJECT / "deploy" / "runner.env.example").read_text()
    names = [name for name, _ in ASSIGNMENT.findall(text)]
    assert len(names) >= 8
    assert [name for name in names if path_of_variable(name) is None] == []


def test_the_env_file_is_enough_to_start_with() -> None:
    text = (PROJECT / "deploy" / "runner.env.example").read_text()
    settings = load_settings(environ=dict(re.findall(r"^([A-Z_]+)=(.*)$", text, re.MULTILINE)))
    assert (str(settings.runner.id), settings.runner.token) == (PLACEHOLDER, None)
    assert settings.runner.credentials.client_secret is not None


def test_the_env_file_has_every_setting_of_a_tharsis_runner() -> None:
    """Each line of the example that people come with, under our name; the helper is one that the image has."""
    values = dict(ASSIGNMENT.findall((PROJECT / "deploy" / "runner.env.example").read_text()))
    names = ("API_URL", "SERVICE_ACCOUNT_PATH", "CREDENTIAL_HELPER_CMD_PATH", "CREDENTIAL_HELPER_CMD_ARGS")
    more = ("SERVICE_DISCOVERY_HOST", "JOB_DISPATCHER_TYPE", "JOB_DISPATCHER_DATA_API_URL")
    assert {f"RUNYARD_{name}" for name in (*names, *more)} <= set(values)
    assert values["RUNYARD_JOB_DISPATCHER_TYPE"] == "local"
    helper = values["RUNYARD_CREDENTIAL_HELPER_CMD_PATH"].removeprefix("/opt/credhelpers/")
    assert (PROJECT / "deploy" / "credhelpers" / helper).is_file()


@pytest.mark.parametrize(("name", "module"), [("tofu", "opentofu/opentofu"), ("terragrunt", "gruntwork-io/terragrunt")])
def test_the_image_is_labelled_with_the_engines_that_it_is_built_with(name: str, module: str) -> None:
    sources = (PROJECT / f"cli/engines/modules/{name}/go.mod").read_text()
    (version,) = re.findall(rf"^\s*(?:require )?github.com/{module} v(\S+)$", sources, re.MULTILINE)
    for file in ("Dockerfile", "helm/runyard-worker/templates/statefulset.yaml"):
        assert f"{name}={version}" in (PROJECT / "deploy" / file).read_text(), file


def test_the_shared_runners_file_is_valid() -> None:
    wanted = read_configuration(PROJECT / "deploy" / "shared-runners.example.toml")
    assert [runner.name for runner in wanted.shared_runners] == ["shared-eu", "shared-plans"]
    page = (PROJECT / "docs" / "runner" / "shared.md").read_text()
    tables = (PROJECT / "deploy" / "shared-runners.example.toml").read_text().partition("\n\n")[2]
    assert tables in page, "the page shows the file"
