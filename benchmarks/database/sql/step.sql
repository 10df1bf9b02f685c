-- One transaction of pgbench: finish what the last one claimed, and claim the next.
select coalesce(r #>> '{jobs,0,id}', '0') as job, coalesce(r #>> '{jobs,0,attempt}', '0') as attempt
from (
  select public.worker_step(gen_random_uuid(), case when :job::bigint > 0
    then jsonb_build_array(jsonb_build_object('job', :job::bigint, 'attempt', :attempt::integer, 'status', 'SUCCEEDED')) else '[]' end, 1) as r
) as s \gset
