"""Reports, logs and artifacts of a running attempt."""

import base64
import hashlib

import pytest

from tests.db.world import Caller, Organization, Runner, World, refused, sha256, this


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True, capacity=5)


def test_the_first_report_starts_the_job(world: World, org: Organization, runner: Runner) -> None:
    job_id = org.enqueue("a/b")
    job = runner.claim_one()
    steps = [{"name": "init", "title": "Init", "phase": "INIT", "status": "RUNNING"}]
    assert runner.report(job, "INIT", p_steps=steps) == {"cancel_kind": None}
    row = world.job(job_id)
    assert (row["status"], row["phase"], row["steps"]) == ("PROCESSING", "INIT", steps)
    assert row["started_at"] is not None
    runner.report(job, "PLAN", p_plan_summary={"create": 2})
    assert world.job(job_id)["plan_summary"] == {"create": 2}
    assert world.job(job_id)["steps"] == steps


def test_the_answer_to_a_report_contains_a_requested_cancellation(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b")
    job = runner.claim_one()
    org.owner.call("cancel_job", p_job=job["id"], p_kind="GRACEFUL")
    assert runner.report(job, "INIT") == {"cancel_kind": "GRACEFUL"}


def test_reports_are_bounded(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b")
    job = runner.claim_one()
    with refused("RY422", "Steps are a list of at most 500 objects and 256 KiB."):
        runner.report(job, "PLAN", p_steps=[{"name": "x" * 300_000}])
    with refused("22P02"):
        runner.report(job, "LUNCH")
    with refused("RY422", "A report needs a phase."):
        runner.call("worker_report", p_job=job["id"], p_attempt=1, p_phase=None)


def test_chunks_are_idempotent_and_counted(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b")
    job = runner.claim_one()
    assert runner.append(job, (1, "one\ntwo\n"), (2, "three")) == {"last_seq": 2}
    runner.append(job, (1, "something else"))
    rows = org.owner.rows(
        "select seq, body, line_count, bytes from public.job_log_chunks where job_id = %s order by seq", job["id"]
    )
    assert rows == [(1, "one\ntwo\n", 2, 8), (2, "three", 1, 5)]


def test_bytes_are_counted_as_utf_8(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b")
    job = runner.claim_one()
    runner.append(job, (1, "größe ✓\n"))
    assert org.owner.one("select bytes from public.job_log_chunks where job_id = %s", job["id"]) == len(
        "größe ✓\n".encode()
    )


@pytest.mark.parametrize("chunks", [[], [(0, "x")], [(1, "x" * 65537)], [(n, "x") for n in range(1, 502)]])
def test_chunks_out_of_bounds_are_refused(org: Organization, runner: Runner, chunks: list[tuple[int, str]]) -> None:
    org.enqueue("a/b")
    job = runner.claim_one()
    with refused("RY422"):
        runner.append(job, *chunks)


def test_attempts_have_logs_of_their_own(world: World, org: Organization) -> None:
    first, second = org.runner("r1", is_assigned_to_all_modules=True), org.runner("r2", is_assigned_to_all_modules=True)
    job_id = org.enqueue("a/b")
    first.append(first.claim_one(), (1, "first\n"))
    world.lose(first)
    world.end_backoff(job_id)
    second.append(second.claim_one(), (1, "second\n"))
    assert org.owner.rows(
        "select attempt, body from public.job_log_chunks where job_id = %s order by attempt", job_id
    ) == [
        (1, "first\n"),
        (2, "second\n"),
    ]


def test_strangers_do_not_read_logs(org: Organization, other_org: Organization, runner: Runner) -> None:
    org.enqueue("a/b")
    runner.append(runner.claim_one(), (1, "secret\n"))
    assert other_org.owner.rows("select body from public.job_log_chunks") == []


def test_partitions_cannot_be_read_past_the_policy(world: World, org: Organization, runner: Runner) -> None:
    partition = world.owner.one(
        "select inhrelid::regclass::text from pg_inherits where inhparent = 'public.job_log_chunks'::regclass limit 1"
    )
    with refused("42501"):
        org.owner.connection.execute(f"select * from {partition}")


def test_a_day_without_a_partition_keeps_its_logs_and_a_runner_makes_no_table(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    job = runner.claim_one()
    world.owner.connection.execute("update private.live_jobs set log_day = '2031-05-05'")
    runner.append(job, (1, "x\n"))
    # The sweep comes late: it makes the day no partition any more, and what came after goes where the first chunk is.
    world.owner.connection.execute("select private.ensure_log_partition('2031-05-05')")
    assert world.owner.one("select to_regclass('private.job_log_chunks_20310505') is null")
    runner.append(job, (2, "y\n"))
    answer = runner.finish(job, p_log={"last_seq": 2, "bytes": 4, "sha256": sha256("x\ny\n")})
    assert (answer["status"], answer["missing"], "log_mismatch" in world.events(job["id"])) == ("SUCCEEDED", [], False)
    read = "select body from public.job_log_chunks where job_id = %s and log_day = '2031-05-05' order by seq"
    assert org.owner.rows(read, job["id"]) == ["x\n", "y\n"]


def locked_days(world: World, caller: Caller) -> list[str]:
    """The log partitions that a connection's open transaction has locked."""
    query = (
        "select distinct c.relname from pg_locks as l join pg_class as c on c.oid = l.relation"
        " where l.pid = %s and c.relkind = 'r' and c.relname like 'job_log_chunks_%%'"
    )
    return world.owner.rows(query, caller.connection.info.backend_pid)


def test_one_of_many_partitions_is_read(fresh_world: World) -> None:
    """The runner's calls have generic plans, which would lock all of them; a page names the days of the job's row."""
    world, org = fresh_world, fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    world.owner.connection.execute(
        "select private.ensure_log_partition(private.utc_day() - d) from generate_series(1, 60) as d"
    )
    today = world.owner.rows("select private.log_partition_name(private.utc_day())")
    for round_ in range(8):
        org.enqueue("a/b")
        job = runner.claim_one()
        log = {"last_seq": 1, "bytes": 2, "sha256": sha256("x\n")}
        with runner.connection.transaction():
            runner.append(job, (1, "x\n"))
            assert runner.finish(job, p_log=log)["status"] == "SUCCEEDED"
            assert locked_days(world, runner) == today, f"round {round_}"
            # A job that is written twice in a transaction is checked against its foreign keys again, which locks these.
            world.owner.connection.execute("select from public.organizations where id = %s for update nowait", [org.id])
    with org.owner.connection.transaction():
        row = org.owner.one("select to_jsonb(j) from public.provision_jobs as j where id = %s", job["id"])
        read = "select body from public.job_log_chunks where job_id = %s and log_day >= %s and log_day <= %s"
        assert org.owner.rows(read, job["id"], row["created_at"][:10], row["log_day"]) == ["x\n"]
        assert locked_days(world, org.owner) == today


def test_finish_names_the_missing_chunks_and_waits_for_them(world: World, org: Organization, runner: Runner) -> None:
    job_id = org.enqueue("a/b")
    job = runner.claim_one()
    parts = {n: f"line {n}\n" for n in range(1, 8)}
    runner.append(job, *[(n, parts[n]) for n in (1, 3, 7)])
    text = "".join(parts.values())
    log = {"last_seq": 7, "bytes": len(text), "sha256": sha256(text)}
    answer = runner.finish(job, p_log=log)
    assert (answer["status"], answer["missing"]) == ("PROCESSING", [[2, 2], [4, 6]])
    assert world.status(job_id) == "CLAIMED"
    runner.append(job, *[(n, parts[n]) for n in (2, 4, 5, 6)])
    assert runner.finish(job, p_log=log)["status"] == "SUCCEEDED"
    assert "log_mismatch" not in world.events(job_id)
    assert world.job(job_id)["last_log_seq"] == 7


def test_an_attempt_that_is_given_back_leaves_its_whole_log(world: World, org: Organization, runner: Runner) -> None:
    """The database forgets the last chunks when it crashes."""
    job_id = org.enqueue("a/b")
    this = {"p_job": job_id, "p_attempt": runner.claim_one()["attempt"]}
    runner.append({"id": job_id, "attempt": this["p_attempt"]}, (1, "one\n"))
    log = {"last_seq": 2, "bytes": 8, "sha256": sha256("one\ntwo\n")}
    asked = runner.call("worker_return_job", **this, p_log=log)
    assert (asked, world.status(job_id)) == ({"status": "PROCESSING", "missing": [[2, 2]]}, "CLAIMED")
    runner.append({"id": job_id, "attempt": this["p_attempt"]}, (2, "two\n"))
    assert runner.call("worker_return_job", **this, p_log=log)["status"] == "QUEUED"
    assert "log_mismatch" not in world.events(job_id)


def test_a_log_that_cannot_be_completed_does_not_keep_the_job(world: World, org: Organization, runner: Runner) -> None:
    job_id = org.enqueue("a/b")
    job = runner.claim_one()
    assert runner.finish(job, p_log={"last_seq": 3, "is_incomplete": True})["status"] == "SUCCEEDED"
    assert world.job(job_id)["last_log_seq"] == 3


def test_a_log_that_differs_is_noted(world: World, org: Organization, runner: Runner) -> None:
    job_id = org.enqueue("a/b")
    job = runner.claim_one()
    runner.append(job, (1, "right\n"))
    log = {"last_seq": 1, "bytes": 6, "sha256": sha256("wrong\n")}
    assert runner.finish(job, p_log={**log, "note": "x" * 10_000})["status"] == "SUCCEEDED"
    noted = "select detail -> 'announced' from public.job_events where job_id = %s and event = 'log_mismatch'"
    assert world.owner.one(noted, job_id) == log


@pytest.mark.parametrize(("chunks", "events"), [(256, ["log_mismatch"]), (257, [])])
def test_the_digest_of_a_log_is_checked_up_to_16_mib(
    world: World, org: Organization, runner: Runner, chunks: int, events: list[str]
) -> None:
    job_id = org.enqueue("a/b")
    job = runner.claim_one()
    world.owner.connection.execute(
        "insert into public.job_log_chunks (log_day, job_id, attempt, seq, org_id, body, line_count, bytes)"
        " select private.utc_day(), %s, 1, n, %s, repeat('x', 65536), 1, 65536 from generate_series(1, %s) as n",
        [job_id, org.id, chunks],
    )
    log = {"last_seq": chunks, "bytes": chunks * 65536, "sha256": "0" * 64}
    assert runner.finish(job, p_log=log)["status"] == "SUCCEEDED"
    assert [event for event in world.events(job_id) if event == "log_mismatch"] == events


def test_the_name_of_a_step_has_an_end(world: World, org: Organization, runner: Runner) -> None:
    org.enqueue("a/b")
    chunks = [{"seq": 1, "step": "s" * 10_000, "body": "x"}, {"seq": 2, "body": "x"}]
    runner.call("worker_append_logs", **this(runner.claim_one(), p_chunks=chunks))
    assert org.owner.rows("select length(step) from public.job_log_chunks order by seq") == [100, 0]


def test_an_apply_reads_the_saved_plan(org: Organization, runner: Runner) -> None:
    plan = org.enqueue("a/b")
    job = runner.claim_one()
    body = bytes(range(256)) * 10
    which = {"p_job": plan, "p_attempt": 1, "p_name": "plan.tfplan"}
    encoded = base64.b64encode(body).decode()
    digest = hashlib.sha256(body).hexdigest()
    runner.call("worker_put_artifact", **which, p_body_base64=encoded, p_sha256=digest)
    with refused("RY422", "The artifact is not what its SHA-256 says."):
        runner.call("worker_put_artifact", **which, p_body_base64=encoded, p_sha256="0" * 64)
    large = base64.b64encode(bytes(32 * 1024 * 1024 + 1)).decode()
    with refused("RY422", "The artifact is too large"):
        runner.call(
            "worker_put_artifact",
            **which,
            p_body_base64=large,
            p_sha256=hashlib.sha256(base64.b64decode(large)).hexdigest(),
        )
    runner.finish(job)
    org.enqueue("a/other", "APPLY")
    other = runner.claim_one()
    with refused("RY404", 'There is no artifact "plan.tfplan"'):
        runner.call("worker_get_artifact", p_job=other["id"], p_attempt=1, p_name="plan.tfplan")
    runner.finish(other)
    apply = org.enqueue("a/b", "APPLY", plan_job_id=plan)
    assert runner.claim_one()["id"] == apply
    got = runner.call("worker_get_artifact", p_job=apply, p_attempt=1, p_name="plan.tfplan")
    assert (base64.b64decode(got["body_base64"]), got["sha256"]) == (body, digest)
    with refused("RY404", 'There is no artifact "'):
        runner.call("worker_get_artifact", p_job=apply, p_attempt=1, p_name="other")


def test_chunks_do_not_wait_for_the_disk_but_the_end_of_a_job_does(runner: Runner, org: Organization) -> None:
    """The finish call names chunks of a log that a crash may have lost, and the runner sends them again; an end must not be lost."""
    org.enqueue("a/b")
    job = runner.claim_one()
    with runner.connection.transaction():
        runner.append(job, (1, "line\n"))
        assert runner.one("show synchronous_commit") == "off"
    with runner.connection.transaction():
        runner.finish(job)
        assert runner.one("show synchronous_commit") == "on"
