"""Settings: the seeds' names, their defaults, four layers, and every mistake at once."""

import json
import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from worker.settings.levels import level_for
from worker.settings.load import forget_secrets, load_settings
from worker.settings.model import Settings
from worker.settings.sources import SettingsError

RUNNER_ID = "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11"
NEEDED = {"WORKER_ID": RUNNER_ID, "WORKER_TOKEN": "ryw_secret", "SUPABASE_URL": "http://db:54321/"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test an empty home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def load(environ: Mapping[str, str] | None = None, **kwargs: Any) -> Settings:
    """Load with the three needed variables and those that a test adds."""
    return load_settings(environ={**NEEDED, **(environ or {})}, **kwargs)


def write(path: Path, values: Mapping[str, Any]) -> Path:
    """Write a JSON settings file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))
    return path


def test_three_variables_are_enough(home: Path) -> None:
    settings = load()
    assert str(settings.runner.id) == RUNNER_ID
    assert settings.runner.token is not None
    assert settings.runner.token.get_secret_value() == "ryw_secret"
    assert settings.server.url == "http://db:54321"
    assert settings.runner.instance == socket.gethostname()
    assert settings.working_directory.working_directory == home / ".runyard/runner"
    assert settings.working_directory.temp_directory == home / ".runyard/runner/.temp"


def test_defaults_are_the_seeds() -> None:
    settings = load()
    stream = settings.job_log_stream
    assert (stream.batch_size_limit, stream.period_seconds) == (50, 5)
    assert stream.eagerly_emit_first_event is True
    assert settings.hooks_preapproval.enabled is False
    assert settings.engine.additional_binary_paths == []
    assert settings.metrics.port is None
    assert settings.dispatcher.type == "local"


def test_the_seeds_file_is_read_as_it_is(tmp_path: Path, home: Path) -> None:
    file = write(
        tmp_path / "settings.json",
        {
            "$schema": "./schema.json",
            "Engine": {"AdditionalBinaryPaths": ["~/.pulumi/bin", "/opt/tofu"]},
            "HooksPreapproval": {"Enabled": True, "PreapprovedHooksDirectory": "~/hooks"},
            "JobLogStream": {
                "BatchSizeLimit": 7,
                "EagerlyEmitFirstEvent": False,
                "PeriodSeconds": 2,
            },
            "Logging": {"LogLevel": {"Default": "Warning", "worker": "Debug"}, "Console": {"X": 1}},
            "Runner": {
                "Id": RUNNER_ID,
                "Instance": "blue-1",
                "OrganizationId": "0f9f5c0e-1111-4a77-9d0c-0d8b0a7c2f11",
                "Credentials": {"ClientId": "ci", "ClientSecret": "shh"},
            },
            "Server": {"Url": "https://abc.supabase.co"},
            "WorkingDirectory": {"TempDirectory": "~/t", "WorkingDirectory": "~/w"},
        },
    )
    settings = load_settings(environ={}, file=file)
    assert settings.engine.additional_binary_paths == [home / ".pulumi/bin", Path("/opt/tofu")]
    assert settings.hooks_preapproval.preapproved_hooks_directory == home / "hooks"
    assert settings.job_log_stream.batch_size_limit == 7
    assert settings.runner.credentials.client_id == "ci"
    assert settings.runner.credentials.client_secret is not None
    assert settings.working_directory.temp_directory == home / "t"


def test_each_layer_wins_over_the_one_before(tmp_path: Path, home: Path) -> None:
    write(home / ".runyard/runner/settings.json", {"Runner": {"Instance": "file"}})
    assert load().runner.instance == "file"
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "WORKER_INSTANCE").write_text("secret\n")
    (secrets / "unrelated").write_text("not ours")
    assert load(secrets_directory=secrets).runner.instance == "secret"
    environ = {"WORKER_INSTANCE": "environment"}
    assert load(environ, secrets_directory=secrets).runner.instance == "environment"
    options = {"Runner.Instance": "option"}
    loaded = load(environ, secrets_directory=secrets, options=options)
    assert loaded.runner.instance == "option"


def test_an_unreadable_secret_file_is_reported_with_the_user_and_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "WORKER_INSTANCE"
    file.write_text("secret")

    def refuse(self: Path, *_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(self))

    # Root, as whom the tests may run, can read everything.
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(SettingsError) as caught:
        load(secrets_directory=tmp_path)
    assert f"Runner.Instance: user {os.getuid()}" in str(caught.value)
    assert f"file {file}" in str(caught.value)


def test_a_secret_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "WORKER_INSTANCE").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=r"Runner\.Instance: cannot be read"):
        load(secrets_directory=tmp_path)


def test_toml_and_the_variable_that_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "runner.toml"
    file.write_text("Capacity = 4\n[JobLogStream]\nPeriodSeconds = 9\n")
    settings = load({"RUNYARD_SETTINGS": str(file)})
    assert (settings.capacity, settings.job_log_stream.period_seconds) == (4, 9)


def test_any_setting_has_a_nested_variable(home: Path) -> None:
    settings = load(
        {
            "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": f"~/a{os.pathsep}/b",
            "RUNYARD__JOBLOGSTREAM__EAGERLYEMITFIRSTEVENT": "false",
            "RUNYARD__LOGGING__LOGLEVEL__DEFAULT": "error",
            "RUNYARD__LOGGING__LOGLEVEL__worker.session": "Trace",
            "RUNYARD__HOOKS_PREAPPROVAL__ENABLED": "1",
        }
    )
    assert settings.engine.additional_binary_paths == [home / "a", Path("/b")]
    assert settings.job_log_stream.eagerly_emit_first_event is False
    assert settings.hooks_preapproval.enabled is True
    assert level_for(settings.logging.log_level, "worker.session.renew") < logging.DEBUG
    assert level_for(settings.logging.log_level, "worker.sessions") < logging.DEBUG, "by the beginning, as .NET does"


def test_lists_may_be_json_or_numbered(home: Path) -> None:
    numbered = {
        "RUNYARD__ENGINE__ADDITIONALBINARYPATHS__0": "/x",
        "RUNYARD__ENGINE__ADDITIONALBINARYPATHS__1": "/y",
    }
    assert load(numbered).engine.additional_binary_paths == [Path("/x"), Path("/y")]
    as_json = {"RUNYARD__ENGINE__ADDITIONALBINARYPATHS": '["~/x"]'}
    assert load(as_json).engine.additional_binary_paths == [home / "x"]


def test_temp_directory_follows_the_working_directory() -> None:
    settings = load(options={"WorkingDirectory.WorkingDirectory": "/srv/runner"})
    assert settings.working_directory.temp_directory == Path("/srv/runner/.temp")


def test_every_mistake_is_named_with_its_place(tmp_path: Path) -> None:
    file = write(tmp_path / "bad.json", {"JobLogStream": {"BatchSizeLimit": 0}, "Runer": {"Id": "x"}})
    environ = {"WORKER_ID": "nonsense", "RUNYARD__CAPACITY": "many"}
    with pytest.raises(SettingsError) as caught:
        load_settings(environ=environ, file=file, options={"Metrics.Port": "70000"})
    found = {problem.setting: problem for problem in caught.value.problems}
    assert str(file) in found["JobLogStream.BatchSizeLimit"].place
    assert "is not a setting" in found["Runer"].message
    assert found["Runner.Id"].place == "environment variable WORKER_ID"
    assert found["Capacity"].place == "environment variable RUNYARD__CAPACITY"
    assert "command line" in found["Metrics.Port"].place
    assert "SUPABASE_URL" in found["Server.Url"].place
    assert "WORKER_TOKEN" in found["Runner.Token"].place


def test_a_broken_file_is_a_problem_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{\n  "Capacity": \n}')
    with pytest.raises(SettingsError) as caught:
        load(file=file)
    assert "line 3" in str(caught.value)
    with pytest.raises(SettingsError, match="No such file"):
        load(file=tmp_path / "absent.json")


@pytest.mark.parametrize("url", ["ftp://x", "localhost:54321", "https://", "https://u:p@x", "https://x?y=1"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"Server\.Url"):
        load({"SUPABASE_URL": url})


def test_secrets_are_in_no_text(tmp_path: Path) -> None:
    settings = load({"WORKER_CLIENT_SECRET": "hush-hush"})
    assert "ryw_secret" not in repr(settings) + settings.model_dump_json()
    assert "hush-hush" not in repr(settings) + settings.model_dump_json()
    file = write(tmp_path / "bad.json", {"Runner": {"Token": ["ryw_in_a_list"]}})
    with pytest.raises(SettingsError) as caught:
        load_settings(environ={}, file=file)
    assert "ryw_in_a_list" not in str(caught.value)


ACCOUNT_ID, ACCOUNT_PATH = {"WORKER_CLIENT_ID": "rysa_1"}, {"RUNYARD_SERVICE_ACCOUNT_PATH": "group/sa"}
SECRET, HELPER = {"WORKER_CLIENT_SECRET": "shh"}, {"RUNYARD_CREDENTIAL_HELPER_CMD_PATH": "/bin/helper"}
ARGUMENTS = {"RUNYARD_CREDENTIAL_HELPER_CMD_ARGS": "eu-west-1"}
NAMES = "set the variable WORKER_CLIENT_ID or RUNYARD_SERVICE_ACCOUNT_PATH"
PROOFS = (
    "set the variable WORKER_CLIENT_SECRET or WORKER_CLIENT_SECRET_FROM or WORKER_IDENTITY_TOKEN_FILE "
    "or RUNYARD_CREDENTIAL_HELPER_CMD_PATH"
)


def load_account(*parts: Mapping[str, str]) -> Settings:
    """Load without a token, with these parts of a service account instead."""
    environ = {"WORKER_ID": RUNNER_ID, "SUPABASE_URL": "http://x"}
    for part in parts:
        environ |= part
    return load_settings(environ=environ)


@pytest.mark.parametrize("name", [ACCOUNT_ID, ACCOUNT_PATH])
@pytest.mark.parametrize("proof", [SECRET, HELPER])
def test_a_service_account_is_a_name_and_a_proof(name: Mapping[str, str], proof: Mapping[str, str]) -> None:
    assert load_account(name, proof).runner.token is None


@pytest.mark.parametrize(
    ("parts", "setting", "place"),
    [
        ([], "Runner.Token", "WORKER_TOKEN"),
        ([ARGUMENTS], "Runner.Token", "WORKER_TOKEN"),
        ([SECRET], "Runner.Credentials.ClientId", NAMES),
        ([HELPER, ARGUMENTS], "Runner.Credentials.ClientId", NAMES),
        ([ACCOUNT_ID], "Runner.Credentials.ClientSecret", PROOFS),
        ([ACCOUNT_PATH], "Runner.Credentials.ClientSecret", PROOFS),
        ([ACCOUNT_PATH, ARGUMENTS], "Runner.Credentials.ClientSecret", PROOFS),
    ],
)
def test_half_a_service_account_names_the_other_half(parts: list[Mapping[str, str]], setting: str, place: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_account(*parts)
    (problem,) = caught.value.problems
    assert problem.setting == setting
    assert place in problem.place
    assert "shh" not in str(problem)


def test_a_token_may_come_from_a_named_file_and_is_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("ryw_from_file\n")
    environ = {"WORKER_ID": RUNNER_ID, "SUPABASE_URL": "http://x", "WORKER_TOKEN_FILE": str(file)}
    settings = load_settings(environ=environ)
    assert settings.runner.token is not None
    assert settings.runner.token.get_secret_value() == "ryw_from_file"
    kept = {**NEEDED, "RUNYARD__RUNNER__CREDENTIALS__CLIENTSECRET": "s", "PATH": "/bin"}
    forget_secrets(kept)
    assert sorted(kept) == ["PATH", "SUPABASE_URL", "WORKER_ID"]


def test_tharsis_variables_configure_the_dispatcher() -> None:
    settings = load(
        {
            "RUNYARD_JOB_DISPATCHER_TYPE": "ecs",
            "RUNYARD_JOB_DISPATCHER_DATA_API_URL": "http://inside",
            "RUNYARD_JOB_DISPATCHER_DATA_TASK_DEFINITION": "arn:task",
            "RUNYARD_JOB_DISPATCHER_DATA_REGION": "us-east-2",
            "RUNYARD_JOB_DISPATCHER_DATA_CLUSTER": "jobs",
            "RUNYARD_JOB_DISPATCHER_DATA_SUBNETS": "subnet-a, subnet-b",
            "RUNYARD_JOB_DISPATCHER_DATA_LAUNCH_TYPE": "FARGATE",
        }
    )
    data = settings.dispatcher.data
    assert data.subnets == ["subnet-a", "subnet-b"]
    assert (data.launch_type, data.region, data.api_url) == (
        "fargate",
        "us-east-2",
        "http://inside",
    )


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("docker", ["DATA_IMAGE"]),
        ("kubernetes", ["DATA_IMAGE"]),
        ("ecs", ["DATA_TASK_DEFINITION", "DATA_CLUSTER", "DATA_SUBNETS"]),
    ],
)
def test_a_dispatcher_names_all_that_it_lacks(kind: str, names: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load({"RUNYARD_JOB_DISPATCHER_TYPE": kind})
    assert all(f"RUNYARD_JOB_DISPATCHER_{name}" in str(caught.value) for name in names)


def test_levels_match_as_dotnet_s_do() -> None:
    levels = load({
        "RUNYARD__LOGGING__LOGLEVEL__Default": "Error", "RUNYARD__LOGGING__LOGLEVEL__worker.j": "Debug",
        "RUNYARD__LOGGING__LOGLEVEL__*state": "Warning", "RUNYARD__LOGGING__CONSOLE__LOGLEVEL__worker.claim": "Critical",
    }).logging.log_level  # fmt: skip
    seen = {name: level_for(levels, name) for name in ("worker.jobs", "worker.state", "worker.claim", "other")}
    assert seen == {
        "worker.jobs": logging.DEBUG, "worker.state": logging.WARNING, "worker.claim": logging.CRITICAL, "other": logging.ERROR
    }  # fmt: skip


def test_an_unknown_key_below_logging_is_named() -> None:
    with pytest.raises(SettingsError, match="LogLevels: not a setting"):
        load({"RUNYARD__LOGGING__LogLevels__Default": "Debug"})
    assert load({"RUNYARD__LOGGING__EventLog__Anything": "x"}).logging.format == "auto"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("MEMORY_LIMIT", "lots", "'lots' is not an amount of memory such as 512 MB"),
        ("MEMORY_REQUEST", "-1", "not an amount of memory"),
        ("EXTRA_HOSTS", "db", "'db' is not name:address"),
        ("BIND_PATH", "/home/me/.aws", "is not /host:/inside"),
        ("HOST", "docker.example:2375", "must begin with unix:// or tcp://"),
        ("API_URL", "inside", "must be an http:// or https:// URL"),
        ("TOLERATIONS", "jobs", "Expecting value"),
        ("NODE_SELECTOR", "pool", "'pool' is not name=value"),
        ("PULL_POLICY", "sometimes", "Always"),
        ("ENVIRONMENT", "WORKER_TOKEN=x", "what the runner itself tells"),
        ("PASS_ENVIRONMENT", "*", "is not a name such as PGPASSWORD"),
        ("PASS_ENVIRONMENT", "RUNYARD_*", "the runner's own"),
        ("REGISTRY_USERNAME", "me", "REGISTRY_PASSWORD"),
    ],
)
def test_a_mistake_in_the_dispatcher_s_data_is_named_at_the_start(name: str, value: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({
            "RUNYARD_JOB_DISPATCHER_TYPE": "docker", "RUNYARD_JOB_DISPATCHER_DATA_IMAGE": "x",
            f"RUNYARD_JOB_DISPATCHER_DATA_{name}": value,
        })  # fmt: skip
    assert words in str(caught.value)
    assert "RUNYARD_JOB_DISPATCHER_" in str(caught.value)


def test_lists_and_maps_of_the_dispatcher_are_read_as_people_write_them() -> None:
    settings = load({
        "RUNYARD_JOB_DISPATCHER_DATA_BIND_PATH": "/a:/b:ro,z,/c:/d", "RUNYARD_JOB_DISPATCHER_DATA_NODE_SELECTOR": "a=b, c=d",
        "RUNYARD_JOB_DISPATCHER_DATA_ENVIRONMENT": '{"A": "x,y"}', "RUNYARD_JOB_DISPATCHER_DATA_PULL_POLICY": "if_not_present",
    })  # fmt: skip
    data = settings.dispatcher.data
    assert data.bind_path == ["/a:/b:ro,z", "/c:/d"]
    assert (data.node_selector, data.environment) == ({"a": "b", "c": "d"}, {"A": "x,y"})
    assert data.pull_policy == "IfNotPresent"


def test_a_task_on_ec2_may_do_without_subnets() -> None:
    needed = {"TYPE": "ecs", "DATA_TASK_DEFINITION": "executor", "DATA_CLUSTER": "jobs", "DATA_LAUNCH_TYPE": "ec2"}
    settings = load({f"RUNYARD_JOB_DISPATCHER_{name}": value for name, value in needed.items()})
    assert settings.dispatcher.data.subnets == []
