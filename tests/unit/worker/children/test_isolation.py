"""A child of a job reaches its own things, whatever it tries, and nothing of it stays."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from stack.settings import PROJECT
from tests.support.job_place import SANDBOXES, TOKEN, Collected, Place, place, run, system_python
from tests.support.waiting import eventually, wait_until
from worker.attempt.isolating import check_secrets, check_strangers
from worker.children.child import Child, stop_with_grace
from worker.children.isolation import KEEPER, find_isolation
from worker.children.sandbox.kernel import CANNOT_START
from worker.children.users import COOKIE_VARIABLE
from worker.errors import Fatal
from worker.settings.dispatcher import IsolationWay
from worker.settings.load import load_settings
from worker.settings.sources import SettingsError

__all__ = ["place"]

pytestmark = pytest.mark.anyio

# One that a job sees of /etc, and some of the many that it does not.
ETC = re.compile(r"^(passwd|shadow|sudoers|cron\.d|systemd|environment|machine-id|fstab)$", re.MULTILINE)
COUNTS_SIGNALS = """
import signal, time, pathlib
seen = []
def note(number, frame):
    seen.append(signal.Signals(number).name)
    new = pathlib.Path("signals.new"); new.write_text(" ".join(seen)); new.rename("signals")
for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, note)
print("ready", flush=True)
while True: time.sleep(0.05)
"""


@pytest.mark.parametrize("way", IsolationWay)
async def test_output_exit_code_and_environment_pass_through(place: Place, way: str) -> None:
    isolation = place.isolation(way)
    code, said = await run(isolation, place, 'echo out; echo err >&2; echo "$COLOUR"; pwd; exit 3', COLOUR="a b\n'c'")
    assert code == 3
    assert said == f"out\nerr\na b\n'c'\n{place.root}\n"
    code, said = await run(isolation, place, "exec no-such-program")
    assert code == CANNOT_START


@pytest.mark.parametrize("way", IsolationWay)
async def test_a_killed_child_reports_its_signal(place: Place, way: str) -> None:
    isolation = place.isolation(way)
    assert (await run(isolation, place, "kill -9 $$"))[0] == -9
    assert (await run(isolation, place, "kill -15 $$"))[0] == -15


@pytest.mark.parametrize("way", IsolationWay)
async def test_a_missing_program_raises_the_same_error_as_without_a_sandbox(place: Place, way: str) -> None:
    with pytest.raises(FileNotFoundError):
        place.isolation(way).enclose(place.command("no-such-program"), place.root)


@pytest.mark.parametrize("way", IsolationWay)
async def test_a_program_is_found_by_its_name(place: Place, way: str) -> None:
    out = Collected()
    command = place.isolation(way).enclose(
        place.command("git", "--version", PATH=f"{place.root}/none:/usr/bin:/bin"), place.root
    )
    assert await Child.start(command).run(out) == 0
    assert out.text.startswith("git version")


@pytest.mark.parametrize("way", IsolationWay)
async def test_it_reads_neither_the_token_nor_the_runners_home_nor_another_job(place: Place, way: str) -> None:
    script = f"""
        cat {place.token}; cat {place.other}/secret.tfvars; cat {place.base}/home/credentials; cat ~/credentials
        cat /proc/{os.getpid()}/environ; cat /proc/{os.getpid()}/mem; ls /run/secrets /var/run/docker.sock
        for each in /proc/[0-9]*; do tr '\\0' '\\n' < $each/environ; done
        env; echo finished
    """
    isolation = place.isolation(way)
    watcher = subprocess.Popen(["sleep", "600"], env={"OTHER_JOB": "password-of-another-job"})
    try:
        code, said = await run(isolation, place, script, MINE="seen")
    finally:
        watcher.kill()
        watcher.wait()
    assert code == 0
    assert said.endswith("finished\n")
    assert "MINE=seen" in said
    for secret in (TOKEN, "another job's password", "the runner's own cloud", "password-of-another-job"):
        assert secret not in said


@pytest.mark.parametrize("way", SANDBOXES)
async def test_it_sees_no_other_process_and_no_other_folder(place: Place, way: str) -> None:
    isolation = place.isolation(way)
    _, said = await run(
        isolation, place, "ls /proc | grep -c '^[0-9]'; ls -d /home /srv ~root/.ssh /sys /boot; ls /tmp"
    )
    assert int(said.splitlines()[0]) <= 6
    assert "No such file" in said
    _, said = await run(
        isolation, place, "touch /x /usr/x /etc/x /bin/x; cat /etc/shadow; hostname; mount --bind /tmp /usr"
    )
    assert "Read-only" in said
    assert "root:" not in said
    assert not Path("/usr/x").exists()


@pytest.mark.parametrize("way", IsolationWay)
async def test_its_folder_home_and_temporary_files_last_as_long_as_the_job(place: Place, way: str) -> None:
    isolation = place.isolation(way)
    assert (await run(isolation, place, "echo a > tmp/a; echo b > ~/b; echo c > c"))[0] == 0
    code, said = await run(isolation, place, "cat tmp/a ~/b c")
    assert said == "a\nb\nc\n"
    assert code == 0
    assert (place.root / "home/b").read_text() == "b\n"
    assert not (place.base / "home/b").exists()


@pytest.mark.parametrize("way", SANDBOXES)
async def test_a_provider_opens_its_socket_however_deep_the_job_s_folder_is(place: Place, way: str) -> None:
    isolation = place.isolation(way)
    place.base = place.base / "deep" / ("d" * 90)
    (place.root / "tmp").mkdir(parents=True)
    (place.root / "home").mkdir()
    opens = "import os, socket; socket.socket(socket.AF_UNIX).bind(os.environ['TMPDIR'] + '/plugin'); print('opened')"
    script = f'{system_python()} -c "{opens}"'
    _, said = await run(isolation, place, script, TMPDIR=str(isolation.temporary(place.root)))
    assert said == "opened\n"
    _, said = await run(isolation, place, script, TMPDIR=str(place.root / "tmp"))
    assert "AF_UNIX path too long" in said


@pytest.mark.parametrize("way", SANDBOXES)
async def test_it_sees_the_places_that_the_page_lists(place: Place, way: str) -> None:
    shown = {name: place.base / name for name in ("programs", "cloud", "token", "home/.pulumi/plugins", "cache")}
    for name, folder in shown.items():
        folder.mkdir(parents=True)
        (folder / "file").write_text(name)
    passed = {
        "GOOGLE_APPLICATION_CREDENTIALS": str(shown["cloud"] / "file"),
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(shown["token"] / "file"),
    }
    place.variables |= passed | {
        "PATH": f"/usr/bin:/bin:{shown['programs']}",
        "TF_PLUGIN_CACHE_DIR": str(shown["cache"]),
    }
    isolation, names = place.isolation(way), " ".join(f"{folder}/file" for folder in shown.values())
    script = f"cat {names}; for each in {names}; do echo new > $each; done; ls /etc"
    _, said = await run(isolation, place, script, **passed)
    assert "".join(shown) in said
    assert [name for name, folder in shown.items() if (folder / "file").read_text() != name] == ["cache"]
    assert set(ETC.findall(said)) == {"passwd"}
    others, mine = (Path(folder, place.base.name + ".file") for folder in ("/tmp", "/var/tmp"))
    others.touch()
    code, _ = await run(isolation, place, f"test ! -e {others} && echo x > {mine} && echo x > /tmp/x")
    others.unlink()
    assert (code, mine.exists(), (place.root / "tmp" / mine.name).exists()) == (0, False, True)


@pytest.mark.parametrize("way", [*SANDBOXES, IsolationWay.LANDLOCK])
async def test_a_file_goes_with_the_variable_that_names_it(place: Place, way: str) -> None:
    """A child that lacks the variable, or has one of its own, does not see the machine's file."""
    keys, other = place.base / "keys", place.base / "other"
    for file in (keys, other):
        file.write_text(f"{file.name} of the machine")
    place.variables |= {"AWS_SHARED_CREDENTIALS_FILE": str(keys)}
    isolation = place.isolation(way)
    for env in ({}, {"AWS_SHARED_CREDENTIALS_FILE": str(other)}):
        _, said = await run(isolation, place, f"cat {keys} {other}", **env)
        assert "of the machine" not in said
    _, said = await run(isolation, place, f"cat {keys}", AWS_SHARED_CREDENTIALS_FILE=str(keys))
    assert said == "keys of the machine"


@pytest.mark.parametrize("way", [*SANDBOXES, IsolationWay.LANDLOCK])
async def test_a_child_sees_paths_named_by_the_operator_with_the_rights_he_gave(place: Place, way: str) -> None:
    shared, home = place.base / "shared", place.base / "home"
    (shared / "mirror").write_text("providers")
    more = {
        "RUNYARD__ENGINE__ISOLATION__READONLYPATHS": str(home / "credentials"),
        # The secrets are in it: they stay covered.
        "RUNYARD__ENGINE__ISOLATION__WRITABLEPATHS": str(place.base),
    }
    isolation = place.isolation(way, **more)
    script = f"cat ~/credentials; cat {shared}/mirror; echo x > {shared}/written; echo x > ~/credentials; cat {place.token}; "
    code, said = await run(isolation, place, f"{script} ls {place.other} {place.token.parent}; echo finished")
    assert "the runner's own cloud" in said
    assert "providers" in said
    assert (shared / "written").exists()
    assert (home / "credentials").read_text() == "the runner's own cloud"
    assert TOKEN not in said
    assert "secret.tfvars" not in said
    assert code == 0


@pytest.mark.parametrize("way", IsolationWay)
async def test_it_ends_neither_the_runner_nor_another_job(place: Place, way: str) -> None:
    other = subprocess.Popen(["sleep", "600"])
    try:
        _, said = await run(
            place.isolation(way), place, f"kill -0 {os.getpid()} && echo reached; kill -9 {other.pid} && echo ended"
        )
        assert "reached" not in said
        assert "ended" not in said
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("way", IsolationWay)
async def test_no_process_outlives_its_child_even_in_another_session_and_environment(place: Place, way: str) -> None:
    isolation = place.isolation(way)
    mark = f"2{uuid.uuid4().int % 10**8:08}"
    escape = " ".join(
        f"env -i {ways} sh -c 'echo > {name}; exec sleep {mark}' & until [ -e {name} ]; do sleep 0.1; done;"
        for name, ways in (("once", "setsid"), ("twice", "setsid setsid"))
    )
    code, _ = await run(isolation, place, escape)
    assert code == 0
    wait_until(lambda: not _running(mark))


@pytest.mark.parametrize("way", IsolationWay)
async def test_a_stubborn_child_gets_exactly_one_interrupt_and_is_then_killed_with_all_it_started(
    place: Place, way: str
) -> None:
    isolation, out = place.isolation(way), Collected()
    mark = f"3{uuid.uuid4().int % 10**8:08}"
    script = f"import subprocess; subprocess.Popen(['setsid', 'sleep', '{mark}'])\n{COUNTS_SIGNALS}"
    child = Child.start(isolation.enclose(place.command(system_python(), "-c", script), place.root))
    running = asyncio.ensure_future(child.run(out))
    await eventually(lambda: _truth("ready" in out.text))
    child.interrupt()
    child.interrupt()
    await eventually(lambda: _truth((place.root / "signals").exists()))
    await stop_with_grace(child, 0.3, asyncio.sleep)
    async with asyncio.timeout(180):
        assert await running < 0
    assert child.is_killed
    assert (place.root / "signals").read_text() == "SIGINT"
    isolation.end(place.root)
    wait_until(lambda: not _running(mark))


@pytest.mark.parametrize("way", IsolationWay)
async def test_an_interrupt_while_it_starts_is_kept_for_it(place: Place, way: str) -> None:
    isolation = place.isolation(way)
    command = isolation.enclose(place.command("/bin/sh", "-c", "exec sleep 600"), place.root)
    # Python loses one that comes while it starts, so that none may come through before it is ready.
    assert command.is_interrupt_blocked
    child = Child.start(command)
    child.interrupt()
    async with asyncio.timeout(180):
        assert await child.run(Collected()) == -signal.SIGINT
    isolation.end(place.root)
    # However the tests themselves were started: a shell ignores interrupts for its background processes.
    _, said = await run(isolation, place, "grep -E '^Sig(Blk|Ign)' /proc/self/status")
    assert [int(line.split()[1], 16) >> (signal.SIGINT - 1) & 1 for line in said.splitlines()] == [0, 0]


@pytest.mark.parametrize("way", IsolationWay)
async def test_the_death_of_the_runner_is_one_interrupt(place: Place, way: str) -> None:
    place.isolation(way)
    cookie = uuid.uuid4().hex
    parent = f"""
import asyncio, pathlib, json
from worker.children.child import Child, Command
from worker.children.isolation import find_isolation
from worker.settings.load import load_settings
environ = json.loads({json.dumps(json.dumps(place.environ(way)))})
async def main():
    isolation = find_isolation(load_settings(environ=environ), environ)
    root = pathlib.Path({str(place.root)!r})
    command = Command(({system_python()!r}, "-c", {COUNTS_SIGNALS!r}), root, {{"{COOKIE_VARIABLE}": "{cookie}", "PATH": "/usr/bin:/bin"}})
    async def sink(data): print("ready", flush=True)
    await Child.start(isolation.enclose(command, root)).run(sink)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", parent, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path.cwd())}
    )
    assert process.stdout is not None
    await process.stdout.readline()
    process.kill()
    await process.wait()
    await eventually(lambda: _truth((place.root / "signals").exists()))
    assert (place.root / "signals").read_text() == "SIGINT"
    from worker.children.users import kill_orphans

    assert kill_orphans(cookie) >= 1
    wait_until(lambda: kill_orphans(cookie) == 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("way", [*SANDBOXES, IsolationWay.LANDLOCK])
def test_an_ordinary_user_s_jobs_are_isolated_as_well(place: Place, way: str) -> None:
    place.isolation(way)
    for folder in (place.base, *place.base.rglob("*")):
        os.chown(folder, 65534, 65534)
    # The repository may be closed to the other user, so the keeper's orders are made here.
    place.variables["PATH"] = "/usr/bin:/bin"
    isolation = place.isolation(way)
    command = isolation.enclose(
        place.command("/bin/sh", "-c", f"id -u; cat {place.token}; ls {place.other}; exit 7"), place.root
    )
    shutil.copytree(PROJECT / "worker", place.base / "worker", ignore=shutil.ignore_patterns("__pycache__"))
    words = [word.replace(str(PROJECT), str(place.base)) for word in KEEPER]
    done = subprocess.run(
        [system_python(), *words], input=command.stdin, env={}, cwd="/", capture_output=True, check=False,
        user=65534, group=65534, extra_groups=[],
    )  # fmt: skip
    if done.returncode == CANNOT_START:
        pytest.skip(done.stderr.decode())
    assert (done.returncode, done.stdout) == (7, b"65534\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_an_isolation_that_leaves_the_secrets_readable_is_not_used(place: Place) -> None:
    place.isolation("user")
    place.token.parent.chmod(0o755)
    place.token.chmod(0o644)
    found = find_isolation(place.settings("user"), place.environ("user"))
    assert (found.way, found.why) == (None, f"user: a job could read {place.token}")
    # The next way does better, where the machine has it.
    assert find_isolation(place.settings("user,landlock"), place.environ("user")).way in {None, IsolationWay.LANDLOCK}


@pytest.mark.parametrize("way", IsolationWay)
def test_a_missing_folder_of_programs_does_not_prevent_isolation(place: Place, way: str) -> None:
    missing = {"RUNYARD__ENGINE__ADDITIONALBINARYPATHS": f"{place.token}/below,/nonexistent"}
    assert place.isolation(way, **missing).way == way


def test_a_machine_without_isolation_reports_the_reason(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = find_isolation(place.settings("bubblewrap"), {})
    assert found.way is None
    assert found.fact == "none"
    assert found.why == "bubblewrap: bwrap is not installed"
    command = place.command("true")
    assert found.enclose(command, place.root) is command


@pytest.mark.parametrize(
    ("variables", "is_served"),
    [
        ({"RUNYARD__ENGINE__ISOLATION__WAYS": "landlock"}, False),
        ({"RUNYARD__ENGINE__ISOLATION__MODE": "off"}, False),
        ({"RUNYARD__ENGINE__ISOLATION__WAYS": "[]"}, False),
        ({"RUNYARD_JOB_DISPATCHER_TYPE": "docker", "RUNYARD_JOB_DISPATCHER_DATA_IMAGE": "runner"}, True),
    ],
)
def test_strangers_share_a_runner_only_where_jobs_are_shut_in(
    place: Place, variables: dict[str, str], is_served: bool
) -> None:
    isolation = find_isolation(place.settings("", **variables), {})
    check_strangers(isolation, {"org_id": "one organisation's"})
    if is_served:
        check_strangers(isolation, {"org_id": None})
        return
    with pytest.raises(Fatal) as refused:
        check_strangers(isolation, {"org_id": None})
    assert "bubblewrap" in refused.value.hint


@pytest.mark.parametrize(
    "common", [{"TF_PLUGIN_CACHE_DIR": "/srv/providers"}, {"RUNYARD__ENGINE__ISOLATION__WRITABLEPATHS": "/srv/common"}]
)
def test_strangers_share_no_place_that_a_job_can_write_to(place: Place, common: dict[str, str]) -> None:
    environ = {**place.environ("bubblewrap,namespaces,user"), **common}
    isolation = find_isolation(load_settings(environ=environ), environ)
    check_strangers(isolation, {"org_id": "one organisation's"})
    with pytest.raises(Fatal, match="/srv/"):
        check_strangers(isolation, {"org_id": None})


@pytest.mark.parametrize(
    "secrets",
    [
        {"RUNYARD__SEALING__ALLOWEDSOURCES": "vault://kv/data/{group}/*"},
        {"RUNYARD__SEALING__KEYFILES": "/etc/runyard/sealing.key"},
    ],
)
def test_strangers_share_no_runner_that_reads_secrets(place: Place, secrets: dict[str, str]) -> None:
    """Two organisations may have a group of the same path, which is all that a pattern knows of a job."""
    check_secrets(place.settings("", **secrets), {"org_id": "one organisation's"})
    check_secrets(place.settings(""), {"org_id": None})
    with pytest.raises(Fatal, match="secrets of another's groups") as refused:
        check_secrets(place.settings("", **secrets), {"org_id": None})
    assert "Sealing.AllowedSources" in refused.value.hint


@pytest.mark.parametrize("value", ["/", "relative/path", "/fine,/"])
def test_the_whole_machine_cannot_be_named(place: Place, value: str) -> None:
    with pytest.raises(SettingsError):
        place.settings("", RUNYARD__ENGINE__ISOLATION__READONLYPATHS=value)


def _running(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(entry.name)
    return found


async def _truth(value: bool) -> bool:
    return value
