-- What people call about the fleet as a whole: lists, counts, one change to many.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function public.list_runners(
  p_org uuid, p_search text default null, p_filters jsonb default '{}', p_sort text default 'name',
  p_limit integer default 50, p_offset integer default 0
)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_runners(p_org, p_search, p_filters, p_sort, p_limit, p_offset); end $$;
comment on function public.list_runners(uuid, text, jsonb, text, integer, integer) is
  'A page of runners {total, counts by status, rows with load, health and processes}: search, filters as lists '
  '{id, status, type, label, version, region, health}, order name, -name, status, newest. Members.';
grant execute on function public.list_runners(uuid, text, jsonb, text, integer, integer) to authenticated;

create function public.runner_facets(p_org uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.runner_facets(p_org); end $$;
comment on function public.runner_facets(uuid) is
  'How many runners each label, version, region and health has, 100 of each; the newest release, how many runners are '
  'older, and how many of those a job can update. Members.';
grant execute on function public.runner_facets(uuid) to authenticated;

create function public.rollout_progress(p_org uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.rollout_progress(p_org); end $$;
comment on function public.rollout_progress(uuid) is
  'The rollout that is under way, with how many runners of each wave are done or failed; null when none is. Members.';
grant execute on function public.rollout_progress(uuid) to authenticated;

create function public.change_runners(p_org uuid, p_workers uuid[], p_change text, p_options jsonb default '{}')
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.change_runners(p_org, p_workers, p_change, p_options); end $$;
comment on function public.change_runners(uuid, uuid[], text, jsonb) is
  'Changes up to 200 runners in one way (drain, resume, disable, enable, update, label) and says how many were changed '
  'and which refused, and why. Options: reason, labels. Operators; each change asks for its own role.';
grant execute on function public.change_runners(uuid, uuid[], text, jsonb) to authenticated;

create function public.installation_metrics()
returns jsonb language sql stable set search_path = ''
as $$ select private.installation_metrics() $$;
comment on function public.installation_metrics() is
  'Figures of the installation: jobs by status, waits, runners by status, slots, how far behind the sweep is. The '
  'metrics function calls it.';
grant execute on function public.installation_metrics() to service_role;

create function public.fleet_figures(p_org uuid, p_hours integer default 24)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.fleet_figures(p_org, p_hours); end $$;
comment on function public.fleet_figures(uuid, integer) is
  'Waits (p50, p95, p99), utilisation, throughput and pass rate over 1, 24 or 168 hours: points of a chart, the whole, '
  'and the runners and groups that waited longest. Members.';
grant execute on function public.fleet_figures(uuid, integer) to authenticated;
