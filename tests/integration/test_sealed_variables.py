"""Secrets that the project cannot read: sealed by the command, opened by a real runner, and in no table in between."""

import base64
import io
import json
import zipfile
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.integration.worker_bench import Bench, bench
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal
from worker.attempt.sealed_values import Keys

__all__ = ["bench"]
SECRET = "plover-93-xyzzy-plugh"
FORMS = (SECRET, base64.b64encode(SECRET.encode()).decode().rstrip("="), SECRET.encode().hex())
CODE = """
variable "password" { default = "" }
variable "settings" { default = {} }
variable "referred" { default = "" }
output "length" { value = length(var.password) }
output "nested" { value = length(var.settings.token) }
output "file" { value = length(file("${path.module}/token.txt")) }
output "referred" { value = length(var.referred) }
output "leak" { value = "shown as ${var.password}" }
"""
UNUSED = 'variable "password" {}\noutput "length" { value = length(var.password) }\n'


@pytest.fixture
def terminal(bench: Bench, running_stack: RunningStack, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})


def tables_with(project_url: str, forms: tuple[str, ...]) -> list[str]:
    """Every table that has one of these texts in a row, or in the bytes of one."""
    query = "select schemaname, tablename from pg_tables where schemaname not in ('pg_catalog', 'information_schema')"
    found = []
    with psycopg.connect(project_url) as connection:
        for schema, table in connection.execute(query).fetchall():
            row = sql.SQL("select 1 from {} as t where {} limit 1").format(
                sql.Identifier(schema, table),
                sql.SQL(" or ").join(
                    # Bytes are shown in hexadecimal.
                    sql.SQL("t::text like {} or t::text like {}").format(f"%{form}%", f"%{form.encode().hex()}%")
                    for form in forms
                ),
            )
            found += [f"{schema}.{table}"] if connection.execute(row).fetchone() else []
    return found


def test_a_sealed_secret_reaches_the_engine_and_no_table(terminal: Terminal, bench: Bench, tmp_path: Path) -> None:
    key, secret = tmp_path / "sealing.key", tmp_path / "secret"
    made = terminal.json("variables", "create-key", str(key))
    module = bench.module(source={"files": {"main.tf": CODE}}, hooks={"before_plan": "echo in the environment: $TOKEN"})
    path = bench.rows("modules", id=module)[0]["path"]
    secret.write_text(SECRET)
    for kind, name in (("input", "password"), ("env", "TOKEN"), ("file", "token.txt")):
        done = terminal.run("variables", "seal", path, name, "--kind", kind, "--from", str(secret))
        assert done.returncode == 0, done.stderr
    secret.write_text(json.dumps({"token": SECRET}))
    assert terminal.run("variables", "seal", "apps", "settings", "--from", str(secret)).returncode == 0
    (tmp_path / "kept").write_text(SECRET)
    assert terminal.run("variables", "refer", path, "referred", f"file://{tmp_path}/kept").returncode == 0
    assert terminal.run("variables", "list").stdout.count("(sealed)") == 4
    assert SECRET not in terminal.run("variables", "effective", path).stdout

    job = bench.enqueue("PLAN", module, confirm=True)
    allowed = {"RUNYARD__SEALING__ALLOWEDSOURCES": f"file://{tmp_path}/*"}
    runner = bench.runner(RUNYARD__SEALING__KEYFILES=str(key), **allowed)
    assert bench.job(job)["labels"] == [made["label"]]
    bench.rpc("update_worker", p_worker=runner.worker_id, p_options={"labels": [made["label"]]})
    assert bench.wait_job(job)["status"] == "SUCCEEDED", bench.log_of(job)
    (apply,) = bench.rows("provision_jobs", plan_job_id=job)
    bench.rpc("approve_job", p_job=apply["id"], p_decision="approve")
    applied = bench.wait_job(apply["id"])
    assert applied["status"] == "SUCCEEDED", bench.log_of(apply["id"])
    assert applied["result"]["outputs"]["leak"]["value"] == "shown as ***"
    lengths = {name: output["value"] for name, output in applied["result"]["outputs"].items() if name != "leak"}
    assert lengths == dict.fromkeys(("length", "nested", "file", "referred"), len(SECRET))
    assert "in the environment: ***" in bench.log_of(job)
    for each in (job, apply["id"]):
        assert not [form for form in FORMS if form in bench.log_of(each)]


def test_neither_a_dump_nor_the_saved_plan_shows_the_secret(
    terminal: Terminal, bench: Bench, running_stack: RunningStack, tmp_path: Path
) -> None:
    key, secret = tmp_path / "sealing.key", tmp_path / "secret"
    made = terminal.json("variables", "create-key", str(key))
    planted = f"{SECRET}-only-here"
    secret.write_text(planted)
    module = bench.module(source={"files": {"main.tf": UNUSED}})
    path = bench.rows("modules", id=module)[0]["path"]
    assert terminal.run("variables", "seal", path, "password", "--from", str(secret)).returncode == 0
    runner = bench.runner(RUNYARD__SEALING__KEYFILES=str(key))
    bench.rpc("update_worker", p_worker=runner.worker_id, p_options={"labels": [made["label"]]})
    planned = bench.finished("PLAN", module)
    bench.finished("APPLY", module)
    encoded = base64.b64encode(planted.encode()).decode().rstrip("=")
    assert "public.modules" in tables_with(running_stack.db_url, (path,)), "the search finds what there is"
    assert tables_with(running_stack.db_url, (planted, encoded)) == []
    # A plan is compressed, so that a search in the dump does not see into it; with the key it is the engine's own.
    with psycopg.connect(running_stack.db_url) as connection:
        query = "select body from private.artifacts where job_id = %s and name = 'plan.tfplan'"
        found = connection.execute(query, [planned["id"]]).fetchone()
    assert found is not None
    stored = bytes(found[0])
    assert not zipfile.is_zipfile(io.BytesIO(stored))
    with zipfile.ZipFile(io.BytesIO(Keys.read([key]).unseal(stored))) as plan:
        assert planted.encode() in plan.read("tfplan")


def test_resealing_moves_secrets_to_the_current_key(terminal: Terminal, bench: Bench, tmp_path: Path) -> None:
    path = bench.rows("modules", id=bench.module())[0]["path"]
    without = terminal.run("variables", "seal", path, "password")
    assert "has no sealing key" in without.stderr
    old, new, secret = tmp_path / "old.key", tmp_path / "new.key", tmp_path / "secret"
    terminal.json("variables", "create-key", str(old))
    assert terminal.run("variables", "create-key", str(old)).returncode != 0, "a key is never overwritten"
    secret.write_text(SECRET)
    assert terminal.run("variables", "seal", path, "password", "--from", str(secret), "--enforced").returncode == 0
    made = terminal.json("variables", "create-key", str(new))
    assert terminal.run("variables", "reseal", str(new)).returncode != 0, "the new key does not open old boxes"
    assert terminal.json("variables", "reseal", str(old)) == [{"path": path, "name": "password"}]
    (row,) = terminal.json("variables", "list")
    assert (row["key_id"], row["version"], row["is_enforced"]) == (made["id"], 2, True)
    exported = terminal.run("variables", "export", path)
    assert (json.loads(exported.stdout), "password" in exported.stderr) == ([], True)
