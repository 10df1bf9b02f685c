"""Large numbers of rows, written straight into the tables: what years of use leave behind."""

from tests.db.world import Organization, World


def add_modules(world: World, org: Organization, count: int, group: str = "bulk") -> None:
    """Modules m1 … in one group."""
    group_id = org.group(group)["id"]
    world.owner.connection.execute(
        "insert into public.modules (org_id, group_id, group_path, name, path) "
        "select %(org)s, %(id)s, %(group)s, 'm' || n, %(group)s || '/m' || n from generate_series(1, %(count)s) as n",
        {"org": org.id, "id": group_id, "group": group, "count": count},
    )


def add_finished_jobs(world: World, org: Organization, count: int) -> None:
    """Jobs of that group's modules that ended over the last weeks."""
    world.owner.connection.execute(
        """with module as (select id, path, row_number() over () as n from public.modules where org_id = %(org)s and group_path = 'bulk')
        insert into public.provision_jobs (
          org_id, type, status, module_id, module_path, group_path, attempt, queued_at, claimed_at, finished_at)
        select %(org)s, 'PLAN', 'SUCCEEDED', m.id, m.path, 'bulk', 1, t.at, t.at, t.at
        from generate_series(1, %(count)s) as g
        join module as m on m.n = 1 + g %% (select count(*) from module)
        cross join lateral (select now() - g * interval '1 second' as at) as t""",
        {"org": org.id, "count": count},
    )


def add_queued_jobs(world: World, org: Organization, count: int, lane: int | None = None) -> int:
    """Queued jobs, one per module as far as there are modules, the rest waiting behind; returns the lane."""
    if lane is None:
        probe = org.enqueue("bulk/probe")
        lane = int(world.owner.one("select lane_id from private.live_jobs where job_id = %s", probe))
    world.owner.connection.execute(
        """with module as (
          select id, path, row_number() over () as n from public.modules where org_id = %(org)s and group_path = 'bulk' and name <> 'probe'
        ), job as (
          insert into public.provision_jobs (org_id, type, status, module_id, module_path, group_path, queued_at, payload)
          select %(org)s, 'PLAN', 'QUEUED', m.id, m.path, 'bulk', now(), (
            select jsonb_build_object('module', jsonb_build_object('engine', l.engine)) from private.lanes as l where l.id = %(lane)s)
          from generate_series(1, %(count)s) as g join module as m on m.n = 1 + g %% (select count(*) from module)
          returning id, module_id
        ), placed as (
          select id, module_id, row_number() over (partition by module_id order by id) as place from job
        )
        insert into private.live_jobs (job_id, org_id, state_key, stage, priority, lane_id, ready_seq)
        select id, %(org)s, module_id, (case when place = 1 then 'READY' else 'WAITING' end)::private.job_stage, 100,
          case when place = 1 then %(lane)s end, case when place = 1 then nextval('private.ready_seq') end from placed""",
        {"org": org.id, "count": count, "lane": lane},
    )
    return lane


def add_workers(world: World, org: Organization, count: int) -> None:
    """Runners for all modules that were never started, with their lanes."""
    world.owner.connection.execute(
        "insert into public.workers (org_id, name, is_assigned_to_all_modules) "
        "select %s, 'bulk-' || n, true from generate_series(1, %s) as n",
        [org.id, count],
    )
    world.owner.connection.execute(
        """insert into private.lane_workers (worker_id, lane_id, distance, instance_name)
        select f.worker_id, f.lane_id, f.distance, f.instance_name
        from private.lane_fit(array(select l.id from private.lanes as l where l.org_id = %s), null) as f
        where f.reason is null on conflict do nothing""",
        [org.id],
    )


def analyze(world: World) -> None:
    for table in (
        "public.modules",
        "public.provision_jobs",
        "public.workers",
        "private.live_jobs",
        "private.lane_workers",
    ):
        world.owner.connection.execute(f"analyze {table}")
