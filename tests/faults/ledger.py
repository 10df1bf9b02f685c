"""The ledger of SECURITY.md: after a fault run, what was promised and what came of it."""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.worker_bench import TERMINAL, Bench

_STUCK = """
  select count(*) as n from private.live_jobs as q
  left join private.heartbeats as h on h.instance_id = q.instance_id and h.session_id = q.session_id
  where q.org_id = %s and q.stage = 'RUNNING'
    and greatest(q.lease_until, h.last_seen_at + interval '60 seconds') + interval '30 seconds' < now()
"""
# A write by an attempt after a later attempt of the same job was claimed.
_ZOMBIES = """
  with claims as (
    select job_id, attempt, min(at) as at from public.job_events where org_id = %(org)s and event = 'claimed' group by 1, 2
  )
  select
    (select count(*) from public.job_log_chunks as c join claims as l on l.job_id = c.job_id and l.attempt > c.attempt
     where c.org_id = %(org)s and c.created_at > l.at)
    + (select count(*) from private.state_versions as s join claims as l on l.job_id = s.job_id and l.attempt > s.attempt
       where s.created_at > l.at)
    + (select count(*) from public.job_events as e join claims as l on l.job_id = e.job_id and l.attempt > e.attempt
       where e.org_id = %(org)s and e.at > l.at and e.actor_kind = 'worker' and e.event not in ('late_report')) as n
"""
_GAPS = """
  select count(*) as n from public.provision_jobs as j
  where j.org_id = %s and j.status in ('SUCCEEDED', 'FAILED', 'CANCELLED') and j.last_log_seq > 0 and (
    j.last_log_seq <> (
      select count(*) from public.job_log_chunks as c
      where c.job_id = j.id and c.attempt = j.attempt and c.seq <= j.last_log_seq)
    or exists (select from public.job_events as e where e.job_id = j.id and e.event = 'log_mismatch'))
"""
_BROKEN_REPLAY = """
  select count(*) as n from public.provision_jobs as j
  where j.org_id = %s and j.status is distinct from (
    select e.to_status from public.job_events as e where e.job_id = j.id and e.to_status is not null order by e.id desc limit 1)
"""
_BROKEN_CHAIN = """
  select count(*) as n from (
    select e.from_status, lag(e.to_status) over (partition by e.job_id order by e.id) as before
    from public.job_events as e where e.org_id = %s and e.to_status is not null
  ) as s where s.from_status is distinct from s.before
"""
# An apply that succeeded, and whose state is neither stored nor kept aside.
_STATE_LOST = """
  select count(*) as n from public.provision_jobs as j
  where j.org_id = %s and j.type = 'APPLY' and j.status = 'SUCCEEDED'
    and not exists (select from private.states as s where s.module_id = j.module_id)
    and not exists (select from private.kept_states as k where k.job_id = j.id)
"""
_KEPT_ASIDE = """
  select count(*) as n from private.kept_states where org_id = %s and stored_at is null and discarded_at is null
"""
_CALLED_FAILED = """
  select count(*) as n from public.provision_jobs as j
  where j.org_id = %s and j.status in ('FAILED', 'CANCELLED') and j.type in ('APPLY', 'DESTROY') and exists (
    select from public.job_log_chunks as c
    where c.job_id = j.id and c.attempt = j.attempt and (c.body like '%%Apply complete!%%' or c.body like '%%Destroy complete!%%'))
"""
# Ended for good for want of something that the runner lacked.
_EATEN = """
  select count(*) as n from public.provision_jobs as j
  where j.org_id = %s and j.status = 'FAILED' and j.error ->> 'code' in (
    'disk', 'work_directory', 'dispatcher', 'image', 'engine', 'memory', 'runner_disk', 'dispatch_failed')
"""


@dataclass
class Ledger:
    """One line for each promise; all but the first three must be 0."""

    enqueued_acked: int
    terminal: int
    waiting: int
    lost: int
    unexpected: int
    double_applied: int
    zombie_accepted: int
    log_gaps: int
    log_lines_lost: int
    state_lost: int
    kept_aside: int
    called_failed: int
    eaten: int
    stuck: int
    unreplayable: int
    statuses: dict[str, int] = field(default_factory=dict)

    def check(self) -> None:
        """Print the ledger and fail unless every promise was kept."""
        sys.stdout.write("\n" + "".join(f"  {name:<16}{value}\n" for name, value in asdict(self).items()))
        broken = {
            name: value
            for name, value in asdict(self).items()
            if name not in {"enqueued_acked", "terminal", "waiting", "statuses"} and value
        }
        assert not broken, broken
        assert self.terminal + self.waiting == self.enqueued_acked


def close_ledger(
    bench: Bench, acked: list[int], runs: Path | None = None, printed: Mapping[int, Path] | None = None
) -> Ledger:
    """Read the ledger of a bench's organisation: what was enqueued, and what the engine counted and printed itself."""
    rows = {int(row["id"]): row for row in bench.rows("provision_jobs", org_id=bench.org, limit="10000")}
    statuses = Counter(str(rows[job]["status"]) for job in acked if job in rows)
    terminal = sum(count for status, count in statuses.items() if status in TERMINAL)
    follow_ups = {job for job, row in rows.items() if row["created_by"] is None}
    with bench.database() as database:

        def number(query: str, parameters: Any) -> int:
            row = database.execute(query, parameters).fetchone()
            return int(row["n"]) if row else -1

        return Ledger(
            enqueued_acked=len(acked),
            terminal=terminal,
            waiting=sum(statuses.values()) - terminal,
            lost=len([job for job in acked if job not in rows]),
            unexpected=len(rows.keys() - set(acked) - follow_ups),
            double_applied=_double_applied(runs),
            zombie_accepted=number(_ZOMBIES, {"org": bench.org}),
            log_gaps=number(_GAPS, [bench.org]),
            log_lines_lost=sum(_lines_lost(bench, job, book) for job, book in (printed or {}).items()),
            state_lost=number(_STATE_LOST, [bench.org]),
            kept_aside=number(_KEPT_ASIDE, [bench.org]),
            called_failed=number(_CALLED_FAILED, [bench.org]),
            eaten=number(_EATEN, [bench.org]),
            stuck=number(_STUCK, [bench.org]),
            unreplayable=number(_BROKEN_REPLAY, [bench.org]) + number(_BROKEN_CHAIN, [bench.org]),
            statuses=dict(statuses),
        )


def _lines_lost(bench: Bench, job: int, book: Path) -> int:
    """Count lines that a job's engine printed, by its own book, and that are not in the job's log."""
    log = bench.log_of(job)
    return sum(line not in log for line in (book.read_text().split() if book.exists() else []))


def _double_applied(runs: Path | None) -> int:
    """Count jobs that the engine applied more than once, by its own book."""
    if runs is None:
        return 0
    applies = Counter(line.split()[0] for line in runs.read_text().splitlines() if line.endswith(" apply"))
    return sum(count - 1 for count in applies.values())
