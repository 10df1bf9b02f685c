-- The API for reviewing: what a plan changes, what members say about a job, what a state knows, and locks.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function public.plan_changes(p_job bigint, p_address text default null)
returns jsonb language sql stable set search_path = ''
as $$ select private.plan_changes(p_job, p_address) $$;
comment on function public.plan_changes(bigint, text) is
  'What a job''s plan changes, attribute by attribute (old, new, known after apply), of one resource or of all; '
  'sensitive values are masked. Members.';
grant execute on function public.plan_changes(bigint, text) to authenticated;

create function public.comment_on_job(p_job bigint, p_body text)
returns jsonb language sql set search_path = ''
as $$ select private.comment_on_job(p_job, p_body) $$;
comment on function public.comment_on_job(bigint, text) is
  'Says something about a job to everybody who looks at it. Members.';
grant execute on function public.comment_on_job(bigint, text) to authenticated;

create function public.state_resources(p_module uuid)
returns jsonb language sql stable set search_path = ''
as $$ select private.state_resources(p_module) $$;
comment on function public.state_resources(uuid) is
  'What a module''s state knows: how many resources, the first 500 by address, counts by type, and the outputs; '
  'sensitive values are masked. Members.';
grant execute on function public.state_resources(uuid) to authenticated;

create function public.roll_back_state(p_module uuid, p_serial bigint)
returns jsonb language sql set search_path = ''
as $$ select private.roll_back_state(p_module, p_serial) $$;
comment on function public.roll_back_state(uuid, bigint) is
  'Makes an older version of a state the newest again, with a new serial; refused while a job uses the state. Changes '
  'no infrastructure. Admins.';
grant execute on function public.roll_back_state(uuid, bigint) to authenticated;

create function public.lock_evidence(p_module uuid)
returns jsonb language sql stable set search_path = ''
as $$ select private.lock_evidence(p_module) $$;
comment on function public.lock_evidence(uuid) is
  'Whether it is safe to break a state''s lock: what is known about the attempt that holds it, and a verdict (free, '
  'safe, unclear, unsafe). Members.';
grant execute on function public.lock_evidence(uuid) to authenticated;

create function public.lock_module(p_module uuid, p_reason text)
returns jsonb language sql set search_path = ''
as $$ select private.lock_module(p_module, p_reason) $$;
comment on function public.lock_module(uuid, text) is
  'Locks a module, with a reason: until it is unlocked nothing is applied or destroyed, and no plan of it confirmed. '
  'Operators.';
grant execute on function public.lock_module(uuid, text) to authenticated;

create function public.unlock_module(p_module uuid)
returns jsonb language sql set search_path = ''
as $$ select private.unlock_module(p_module) $$;
comment on function public.unlock_module(uuid) is 'Takes a member''s lock off a module. Operators.';
grant execute on function public.unlock_module(uuid) to authenticated;

revoke execute on all functions in schema private, public from public;
