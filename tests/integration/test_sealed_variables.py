"""Secrets that the project cannot read: sealed by the command, opened by a real runner, and in no table in between."""

import base64
import io
import json
import uuid
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from cli.variables import sealing
from tests.integration.worker_bench import Bench, bench
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal
from worker.attempt.variables import Keys

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
UNUSED = 'variable "s00" {}\noutput "length" { value = length(var.s00) }\n'


@pytest.fixture
def terminal(bench: Bench, running_stack: RunningStack, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})


def forms_of(secret: str) -> set[str]:
    """The encodings in which a secret could be kept, and each of them as PostgreSQL writes bytes."""
    plain = secret.encode()
    encoded = [base64.b64encode(plain).decode().rstrip("="), base64.urlsafe_b64encode(plain).decode().rstrip("=")]
    forms = {secret, *encoded, plain.hex(), plain.hex().upper(), quote(secret, safe=""), json.dumps(secret)[1:-1]}
    return forms | {form.encode().hex() for form in forms}


def tables_with(project_url: str, secrets: list[str]) -> dict[str, set[str]]:
    """Every table whose rows contain one of these texts in any encoding, and which."""
    query = "select schemaname, tablename from pg_tables where schemaname not in ('pg_catalog', 'information_schema')"
    forms = {form.encode(): secret for secret in secrets for form in forms_of(secret)}
    found: dict[str, set[str]] = {}
    with psycopg.connect(project_url) as connection:
        for schema, table in connection.execute(query).fetchall():
            copy = sql.SQL("copy (select * from {}) to stdout").format(sql.Identifier(schema, table))
            with connection.cursor().copy(copy) as rows:
                content = b"".join(rows)
            if here := {secret for form, secret in forms.items() if form in content}:
                found[f"{schema}.{table}"] = here
    return found


def test_a_sealed_secret_reaches_the_engine_and_no_table(terminal: Terminal, bench: Bench, tmp_path: Path) -> None:
    key, secret = tmp_path / "sealing.key", tmp_path / "secret"
    made = terminal.json("variables", "create-key", str(key))
    module = bench.module(
        source={"files": {"main.tf": CODE}},
        hooks={"before_plan": "echo in the environment: $TOKEN", "after_plan": "env | grep -c ^TOK || true"},
    )
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
    assert "Secrets that the script does not name are left out: TOKEN\n" in bench.log_of(job)
    for each in (job, apply["id"]):
        assert not [form for form in FORMS if form in bench.log_of(each)]


def plant(bench: Bench, key: dict[str, Any], path: str) -> dict[str, str]:
    """Seal 50 secrets as inputs, environment and files, at the organisation, a group and the module."""
    secrets = {f"s{n:02}": f"plant{n:02}/+{uuid.uuid4().hex[:12]}?x" for n in range(50)}
    for number, place in enumerate(("", "apps", path)):
        mine = list(secrets.items())[number::3]
        kinds = [("input", "env", "file")[at % 3] for at in range(len(mine))]
        sealed = [
            sealing.seal(key, (place, kind, name, False), secret)
            for kind, (name, secret) in zip(kinds, mine, strict=True)
        ]
        bench.rpc("set_variables", p_org=bench.org, p_path=place, p_variables=sealed)
    return secrets


# Everything that people do by mistake: show the environment and the files, in every encoding, and fail with them.
LEAK = """
for name in {names}; do
  value="$(printenv $name || cat $name 2>/dev/null || true)"
  echo "$name $value"; echo "$value" | base64 -w0; printf %s "$value" | base64 -w0; printf %s "$value" | od -An -tx1 | tr -d ' \\n'
  echo "error: $value" >&2
done
"""
FAILING = """
variable "s00" {}
output "x" {
  value = 1
  precondition {
    condition     = length(var.s00) == 0
    error_message = "It is ${nonsensitive(var.s00)}."
  }
}
"""


def test_a_busy_organisation_keeps_none_of_50_secrets_in_any_encoding(
    terminal: Terminal, bench: Bench, running_stack: RunningStack, tmp_path: Path
) -> None:
    key = tmp_path / "sealing.key"
    made = terminal.json("variables", "create-key", str(key))
    (row,) = bench.rows("sealing_keys", id=made["id"])
    names = " ".join(f"s{n:02}" for n in range(50))
    module = bench.module(
        source={"files": {"main.tf": UNUSED}},
        hooks={"before_plan": LEAK.format(names=names), "after_apply": LEAK.format(names=names)},
    )
    failing = bench.module(source={"files": {"main.tf": FAILING}})
    secrets = plant(bench, row, "apps/web")
    rule = {
        "channel": "webhook",
        "events": ["job.failed"],
        "path": "",
        "address": f"s1.{'x' * 60}",
        "address_hint": "…",
    }
    bench.rpc("create_notification_rule", p_org=bench.org, p_spec=rule)
    runner = bench.runner(RUNYARD__SEALING__KEYFILES=str(key))
    bench.rpc("update_worker", p_worker=runner.worker_id, p_options={"labels": [made["label"]]})
    planned = bench.finished("PLAN", module)
    applied = bench.finished("APPLY", module, plan_job_id=planned["id"])
    failed = bench.wait_job(bench.enqueue("PLAN", failing))
    assert failed["status"] == "FAILED"
    for job in (planned, applied, failed):
        log = bench.log_of(job["id"])
        assert not [secret for secret in secrets.values() if any(form in log for form in forms_of(secret))]
        assert "***" in log, "there was something to mask"
    assert bench.rows("deliveries", org_id=bench.org), "there was something to notify of"
    assert tables_with(running_stack.db_url, ["apps/web"]).keys() >= {"public.modules"}, (
        "the search finds what there is"
    )
    assert tables_with(running_stack.db_url, list(secrets.values())) == {}
    assert not [secret for secret in secrets.values() if secret in runner.output]
    # A plan is compressed, so that a search does not see into it; with the key it is the engine's own.
    with psycopg.connect(running_stack.db_url) as connection:
        query = "select body from private.artifacts where job_id = %s and name = 'plan.tfplan'"
        found = connection.execute(query, [planned["id"]]).fetchone()
    assert found is not None
    stored = bytes(found[0])
    assert not zipfile.is_zipfile(io.BytesIO(stored))
    with zipfile.ZipFile(io.BytesIO(Keys.read([key]).unseal(stored))) as plan:
        assert secrets["s00"].encode() in plan.read("tfplan")


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
