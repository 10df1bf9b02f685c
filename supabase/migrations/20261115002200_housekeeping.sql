-- Housekeeping: what would otherwise pile up. Log partitions are made ahead and dropped when every organisation's retention
-- is over; hours are rolled up; sessions, ticks, counters and artifacts go after their time.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.drop_old_log_partitions()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_table pg_catalog.record;
  v_keep integer := coalesce((select max(o.log_retention_days) from public.organizations as o), 30);
  v_count integer := 0;
begin
  for v_table in
    select c.relname, to_date(right(c.relname, 8), 'YYYYMMDD') as day
    from pg_catalog.pg_inherits as i join pg_catalog.pg_class as c on c.oid = i.inhrelid
    where i.inhparent = 'public.job_log_chunks'::pg_catalog.regclass
  loop
    if v_table.day < current_date - v_keep then
      execute format('drop table private.%I', v_table.relname);
      v_count := v_count + 1;
    end if;
  end loop;
  return v_count;
end;
$$;
comment on function private.drop_old_log_partitions() is 'Drops the log partitions that no organisation keeps any more.';

create function private.delete_old_logs()
returns integer
language plpgsql
set search_path = ''
as $$
declare
  v_count integer;
begin
  -- Whole days go by dropping their partition; this is for organisations that keep logs for less long than another. A part
  -- at a time: it may run inside of a beat, which must not take long.
  delete from public.job_log_chunks as c
  where (c.log_day, c.job_id, c.attempt, c.seq) in (
    select l.log_day, l.job_id, l.attempt, l.seq from public.job_log_chunks as l join public.organizations as o on o.id = l.org_id
    where l.log_day < current_date - o.log_retention_days
      and l.log_day < current_date - (select min(m.log_retention_days) from public.organizations as m) limit 20000);
  get diagnostics v_count = row_count;
  return v_count;
end;
$$;
comment on function private.delete_old_logs() is 'Deletes log chunks that are older than their own organisation''s retention.';

create function private.housekeeping()
returns jsonb
language plpgsql
set search_path = ''
as $$
begin
  perform private.ensure_log_partition(current_date + d) from generate_series(0, 2) as d;
  delete from private.sessions where ended_at < now() - interval '7 days';
  delete from private.rate_limits where window_started_at < now() - interval '1 day';
  delete from private.rings where rung_at < now() - interval '1 hour';
  delete from private.lane_floors as f where exists (select from private.lane_floors as n where n.lane_id = f.lane_id
    and n.floor > f.floor);
  delete from private.instance_floors as f where exists (select from private.instance_floors as n where n.instance_id = f.instance_id
    and n.floor > f.floor);
  delete from private.settled_marks as m where m.mark < (select max(n.mark) from private.settled_marks as n
    where n.horizon <= pg_snapshot_xmin(pg_current_snapshot()));
  delete from private.worker_ticks where at < now() - interval '31 days';
  delete from private.artifacts where created_at < now() - interval '30 days';
  return jsonb_build_object('dropped_log_days', private.drop_old_log_partitions(), 'rolled_hours', private.roll_up(),
    'deleted_log_chunks', case when private.is_due('retention', interval '30 minutes') then private.delete_old_logs() else 0 end);
end;
$$;
comment on function private.housekeeping() is 'Removes what is past its time; makes log partitions ahead.';

revoke execute on all functions in schema private from public;
