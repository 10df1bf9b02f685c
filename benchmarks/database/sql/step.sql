-- One transaction of pgbench: claim a job and finish it, in the runner's two calls.
select coalesce(r #>> '{jobs,0,id}', '0') as job, coalesce(r #>> '{jobs,0,attempt}', '0') as attempt
from (select public.worker_claim(gen_random_uuid(), 1) as r) as s \gset
\if :job
select public.worker_finish(:job, :attempt, 'SUCCEEDED', p_plan_summary => '{"has_changes": false}');
\endif
