"""The plan that was shown is the plan that is applied, whatever the job's hooks do to its file."""

import hashlib

import pytest

from tests.integration.worker_bench import Bench

# Another plan in the place of the one that people see, made by the engine itself.
FORGE = "TF_VAR_who=EVIL tofu plan -input=false -lock=false -out=../plan.tfplan > /dev/null"


@pytest.fixture
def bench(served: Bench) -> Bench:
    """Use the shared runner: any runner can do these jobs."""
    return served


def test_a_hook_that_replaces_the_plan_before_it_is_saved_ends_the_job(bench: Bench) -> None:
    job = bench.wait_job(bench.enqueue("PLAN", bench.module(hooks={"after_plan": FORGE})))
    assert (job["status"], job["error"]["code"]) == ("FAILED", "plan_changed"), bench.log_of(job["id"])
    assert job["result"]["plan_sha256"] in job["error"]["message"]
    changes = bench.rpc("plan_changes", p_job=job["id"])["resources"]
    assert "EVIL" not in str(changes)
    assert "hello world" in str(changes)
    assert "save-plan" not in [step["name"] for step in job["steps"] if step["status"] == "SUCCEEDED"]


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_hook_that_replaces_the_plan_before_the_apply_changes_nothing(bench: Bench, is_saved: bool) -> None:
    module = bench.module(hooks={"before_apply": FORGE})
    options = {"plan_job_id": bench.finished("PLAN", module)["id"]} if is_saved else {}
    job = bench.wait_job(bench.enqueue("APPLY", module, **options))
    assert (job["status"], job["error"]["code"]) == ("FAILED", "plan_changed"), bench.log_of(job["id"])
    assert "Nothing was applied" in job["error"]["message"]
    assert bench.rpc("state_info", p_module=module)["serial"] is None


def test_hooks_read_a_copy_of_the_plan_whose_digest_is_reported(bench: Bench) -> None:
    read = "sha256sum < ../plan.tfplan; tofu show ../plan.tfplan"
    module = bench.module(hooks={"after_plan": read, "before_apply": read + "; rm ../plan.tfplan"})
    plan = bench.finished("PLAN", module)
    digest = plan["result"]["plan_sha256"]
    assert plan["plan_summary"]["plan_sha256"] == digest
    assert f"{digest}  -" in bench.log_of(plan["id"])
    with bench.database() as database:
        row = database.execute(
            "select body from private.artifacts where job_id = %s and name = 'plan.tfplan'", [plan["id"]]
        ).fetchone()
    assert row is not None
    assert hashlib.sha256(row["body"]).hexdigest() == digest
    applied = bench.finished("APPLY", module, plan_job_id=plan["id"])
    assert applied["result"]["plan_sha256"] == digest
    assert f"{digest}  -" in bench.log_of(applied["id"])
    assert applied["result"]["outputs"]["greeting"]["value"] == "hello world"


@pytest.mark.parametrize(
    ("kind", "moment"), [("PLAN", "before_plan"), ("DRIFT", "before_plan"), ("OUTPUT", "before_output")]
)
def test_a_job_that_only_reads_cannot_write_the_state_and_its_log_gives_the_reason(
    bench: Bench, kind: str, moment: str
) -> None:
    module = bench.module()
    bench.finished("APPLY", module)
    before = bench.rpc("state_info", p_module=module)
    hook = "tofu state rm terraform_data.greeting || echo the engine failed"
    bench.rpc("update_module", p_module=module, p_spec={"hooks": {moment: hook}})
    job = bench.finished(kind, module)
    log = bench.log_of(job["id"])
    assert "the engine failed" in log
    assert "POST of the state was refused: This job only reads the state" in log
    after = bench.rpc("state_info", p_module=module)
    assert (after["serial"], after["lock"]) == (before["serial"], None)
