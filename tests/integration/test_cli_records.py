"""`runyard record`: changes by a real runner, exported, and verified without a login or a connection."""

import json
from pathlib import Path

import pytest

from cli.errors import ExitCode
from tests.integration.worker_bench import Bench
from tests.support.records import jwk, make_key
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(served: Bench, running_stack: RunningStack, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": served.token})


def test_the_changes_of_a_module_verify_with_nothing_but_the_public_keys(
    terminal: Terminal, served: Bench, tmp_path: Path
) -> None:
    module = served.module()
    path = str(served.rows("modules", id=module)[0]["path"])
    numbers = [served.finished(kind, module)["number"] for kind in ("APPLY", "DESTROY")]
    exported, keys, one = tmp_path / "records.jsonl", tmp_path / "keys.json", tmp_path / "one.json"
    exported.write_text(terminal.run("record", "export", path).stdout)
    keys.write_text(terminal.run("record", "keys").stdout)
    one.write_text(terminal.run("record", "download", str(numbers[1])).stdout)
    nowhere = Terminal(tmp_path / "empty", {"SUPABASE_URL": "http://127.0.0.1:9"})
    said = nowhere.run("record", "verify", str(exported), "--keys", str(keys))
    assert (said.returncode, "Signed, chain complete since" in said.stdout) == (0, True), said.stderr
    assert "2 records" in said.stdout
    alone = nowhere.run("record", "verify", str(one), "--keys", str(keys))
    assert (alone.returncode, "record 2 of its chain" in alone.stdout) == (0, True), alone.stderr
    lines = exported.read_text().splitlines()
    first, second = (json.loads(line) for line in lines)
    changed = {**second, "payload": first["payload"]}
    for name, text, words in (
        ("changed", json.dumps(changed), "does not match its signature"),
        ("missing", json.dumps([second, second]), "record 1 is missing before record 2"),
        ("other", "{}", "That is not a signed record"),
    ):
        file = tmp_path / name
        file.write_text(text)
        refused = nowhere.run("record", "verify", str(file), "--keys", str(keys))
        assert (refused.returncode, words in refused.stderr) == (ExitCode.REFUSED, True), refused.stderr
    other = tmp_path / "other-keys.json"
    other.write_text(json.dumps({"keys": [jwk(make_key(), "elsewhere")]}))
    unknown = nowhere.run("record", "verify", str(exported), "--keys", str(other))
    assert "which is not among the public keys" in unknown.stderr
    missing = nowhere.run("record", "verify", str(tmp_path / "none"), "--keys", str(keys))
    assert (missing.returncode, "cannot be read" in missing.stderr) == (ExitCode.USAGE, True)
