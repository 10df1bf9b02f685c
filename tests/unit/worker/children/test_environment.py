"""The child's environment is an allow-list, and a job cannot widen it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.children import hardening
from worker.children.child import memory_kills
from worker.children.environment import host_variables, job_variables, search_path, sensitive_values
from worker.errors import JobFailed

FORBIDDEN = [
    "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP", "GIT_SSH_COMMAND", "TF_CLI_ARGS",
    "TF_CLI_ARGS_plan", "TF_CLI_CONFIG_FILE", "PATH", "WORKER_TOKEN", "RUNYARD_ENDPOINT", "SUPABASE_URL", "BASH_ENV",
    "ENV", "DYLD_INSERT_LIBRARIES", "TF_HTTP_PASSWORD", "TF_DATA_DIR", "HOME", "ld_preload", "path",
]  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_job_may_not_set_a_forbidden_variable(name: str) -> None:
    with pytest.raises(JobFailed) as caught:
        job_variables({name: "x", "FINE": "y"})
    assert caught.value.code == "forbidden_variable"
    assert name in caught.value.message
    assert "FINE" not in caught.value.message


@pytest.mark.parametrize("name", ["", "A B", "A=B", "1A", "A\n", "é"])
def test_invalid_variable_names_are_refused(name: str) -> None:
    with pytest.raises(JobFailed):
        job_variables({name: "x"})


def test_a_jobs_own_variables_pass_as_text() -> None:
    assert job_variables({"TF_VAR_size": 3, "DEBUG": True, "TF_LOG": "INFO", "EMPTY": None}) == {
        "TF_VAR_size": "3",
        "DEBUG": "true",
        "TF_LOG": "INFO",
        "EMPTY": "",
    }


@given(st.dictionaries(st.text("ABCDEFGH_", min_size=1, max_size=6), st.text(max_size=5)))
def test_nothing_unlisted_is_inherited(environ: dict[str, str]) -> None:
    secrets = {"WORKER_TOKEN": "t", "WORKER_ID": "i", "SUPABASE_URL": "u", "MY_COMPANY_PASSWORD": "p"}
    seen = host_variables({**environ, **secrets, "AWS_PROFILE": "prod"})
    assert not secrets.keys() & seen.keys()
    assert seen["AWS_PROFILE"] == "prod"


def test_the_operator_hands_more_variables_on_but_never_the_runner_s_own() -> None:
    environ = {
        "VSPHERE_USER": "u",
        "PGPASSWORD": "p",
        "PGUSER": "q",
        "OKTA_TOKEN": "o",
        "RUNYARD_JOB_TOKEN": "no",
        "LD_PRELOAD": "no",
    }
    seen = host_variables(environ, ["VSPHERE_*", "PGPASSWORD", "OKTA_", "RU*", "LD_PRELOAD"])
    assert seen == {"VSPHERE_USER": "u", "PGPASSWORD": "p", "OKTA_TOKEN": "o"}


def test_secret_looking_values_are_found_for_the_redactor() -> None:
    variables = {"AWS_SECRET_ACCESS_KEY": "aaa", "DB_PASSWORD": "bbb", "HCLOUD_TOKEN": "ccc", "AWS_REGION": "eu"}
    assert sensitive_values(variables) == ["aaa", "bbb", "ccc"]


def test_additional_directories_come_before_path() -> None:
    assert search_path(["/opt/tofu"], {"PATH": "/usr/bin"}) == "/opt/tofu:/usr/bin"


# Its text, not its name: the other user may not be able to read this folder.
PEEK = f"""
{Path(hardening.__file__).read_text()}
import os, subprocess
if sys.argv[1] == "hidden":
    assert hide_from_children()
print(subprocess.run(["sh", "-c", "cat /proc/$PPID/environ | tr '\\\\0' '\\\\n'"],
      env={{"PATH": os.environ["PATH"]}}, capture_output=True, text=True).stdout)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux")
@pytest.mark.parametrize(("how", "is_seen"), [("open", True), ("hidden", False)])
def test_a_child_cannot_read_the_runners_own_environment(how: str, is_seen: bool) -> None:
    # root may read everything, so the runner of this test is somebody else.
    who = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-c", PEEK, how],
        env={"PATH": os.environ["PATH"], "WORKER_TOKEN": "ryw_very_secret"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **who,
    )
    assert done.returncode == 0, done.stderr
    assert ("ryw_very_secret" in done.stdout) is is_seen


@pytest.mark.parametrize(
    ("own", "file"),
    [
        ("0::/system.slice/runner.service", "system.slice/runner.service/memory.events"),
        ("0::/", "memory.events"),
        ("8:pids:/x\n4:memory:/docker/abc", "memory/docker/abc/memory.oom_control"),
        ("4:memory:/docker/abc", "memory/memory.oom_control"),
    ],
)
def test_processes_killed_for_lack_of_memory_are_counted(tmp_path: Path, own: str, file: str) -> None:
    (tmp_path / "own").write_text(own)
    assert memory_kills(tmp_path / "groups", tmp_path / "own") == 0
    counter = tmp_path / "groups" / file
    counter.parent.mkdir(parents=True)
    counter.write_text("oom 3\noom_kill 2\n")
    assert memory_kills(tmp_path / "groups", tmp_path / "own") == 2
