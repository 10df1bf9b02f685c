-- The API of what starts by itself and of whom it tells: schedules, sets, update policy, notifications. Thin wrappers
-- that
-- run as the caller, like the other API files.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function public.start_set(p_org uuid, p_type public.job_type, p_path text, p_options jsonb default '{}')
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.start_set(p_org, p_type, p_path, p_options); end $$;
comment on function public.start_set(uuid, public.job_type, text, jsonb) is
  'Enqueues a PLAN or DRIFT job for every module at or below a group ("" is all), as one thing with its progress. '
  'Idempotent by its key. Operators.';
grant execute on function public.start_set(uuid, public.job_type, text, jsonb) to authenticated;

create function public.list_sets(p_org uuid, p_path text default null, p_limit integer default 20)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_sets(p_org, p_path, p_limit); end $$;
comment on function public.list_sets(uuid, text, integer) is
  'Sets, the running ones first, with their counts, what failed, and about how long the rest takes. Members.';
grant execute on function public.list_sets(uuid, text, integer) to authenticated;

create function public.set_progress(p_set uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.set_progress(p_set); end $$;
comment on function public.set_progress(uuid) is
  'How far a set is: total, done, failed, running, waiting, what failed and why. Members.';
grant execute on function public.set_progress(uuid) to authenticated;

create function public.cancel_set(p_set uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.cancel_set(p_set); end $$;
comment on function public.cancel_set(uuid) is
  'Cancels what waits of a set; what runs, finishes. Operators.';
grant execute on function public.cancel_set(uuid) to authenticated;

create function public.retry_set(p_set uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.retry_set(p_set); end $$;
comment on function public.retry_set(uuid) is
  'Retries what failed of a set; the retries take the place of what they repeat. Operators.';
grant execute on function public.retry_set(uuid) to authenticated;

create function public.preview_schedule(p_org uuid, p_cron text, p_zone text default 'UTC')
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.preview_schedule(p_org, p_cron, p_zone); end $$;
comment on function public.preview_schedule(uuid, text, text) is
  'A time in words, and the next five times it comes in that zone. Members.';
grant execute on function public.preview_schedule(uuid, text, text) to authenticated;

create function public.list_schedules(p_org uuid, p_path text default null)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_schedules(p_org, p_path); end $$;
comment on function public.list_schedules(uuid, text) is
  'Schedules with their words, next time and last run; with a path those of the module or group and of the groups '
  'above. Members.';
grant execute on function public.list_schedules(uuid, text) to authenticated;

create function public.create_schedule(p_org uuid, p_spec jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.create_schedule(p_org, p_spec); end $$;
comment on function public.create_schedule(uuid, jsonb) is
  'Creates a schedule {path, type, cron, zone, is_on, reason}: DRIFT, PLAN, APPLY or DESTROY by the clock. Operators; '
  'admins to destroy.';
grant execute on function public.create_schedule(uuid, jsonb) to authenticated;

create function public.update_schedule(p_schedule uuid, p_spec jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.update_schedule(p_schedule, p_spec); end $$;
comment on function public.update_schedule(uuid, jsonb) is
  'Changes the fields of a schedule that are named. Operators; admins to destroy.';
grant execute on function public.update_schedule(uuid, jsonb) to authenticated;

create function public.remove_schedule(p_schedule uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.remove_schedule(p_schedule); end $$;
comment on function public.remove_schedule(uuid) is
  'Removes a schedule; its jobs stay. Operators; admins to destroy.';
grant execute on function public.remove_schedule(uuid) to authenticated;

create function public.run_schedule(p_schedule uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.run_schedule(p_schedule); end $$;
comment on function public.run_schedule(uuid) is
  'Runs a schedule now; its next time stays as it is. Operators; admins to destroy.';
grant execute on function public.run_schedule(uuid) to authenticated;

create function public.update_policy(p_org uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.update_policy(p_org); end $$;
comment on function public.update_policy(uuid) is
  'When outdated runners update by themselves: mode, window, next window, how many. Members.';
grant execute on function public.update_policy(uuid) to authenticated;

create function public.set_update_policy(p_org uuid, p_spec jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.set_update_policy(p_org, p_spec); end $$;
comment on function public.set_update_policy(uuid, jsonb) is
  'Sets when outdated runners update by themselves {mode: OFF, WINDOW or NOW, days, begins_at, ends_at, zone}. Admins.';
grant execute on function public.set_update_policy(uuid, jsonb) to authenticated;

create function public.list_notification_rules(p_org uuid)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_notification_rules(p_org); end $$;
comment on function public.list_notification_rules(uuid) is
  'Notification rules, each with its last delivery; of an address only its hint. Members.';
grant execute on function public.list_notification_rules(uuid) to authenticated;

create function public.create_notification_rule(p_org uuid, p_spec jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.create_notification_rule(p_org, p_spec); end $$;
comment on function public.create_notification_rule(uuid, jsonb) is
  'Creates a rule {path, events, channel, address, address_hint, secret, is_on}; address and secret come sealed by '
  'the function notify. Admins.';
grant execute on function public.create_notification_rule(uuid, jsonb) to authenticated;

create function public.update_notification_rule(p_rule uuid, p_spec jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.update_notification_rule(p_rule, p_spec); end $$;
comment on function public.update_notification_rule(uuid, jsonb) is
  'Changes the fields of a notification rule that are named. Admins.';
grant execute on function public.update_notification_rule(uuid, jsonb) to authenticated;

create function public.remove_notification_rule(p_rule uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.remove_notification_rule(p_rule); end $$;
comment on function public.remove_notification_rule(uuid) is
  'Removes a notification rule with its address; the log stays. Admins.';
grant execute on function public.remove_notification_rule(uuid) to authenticated;

create function public.test_notification_rule(p_rule uuid)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.test_notification_rule(p_rule); end $$;
comment on function public.test_notification_rule(uuid) is
  'Sends a test by a rule. Admins.';
grant execute on function public.test_notification_rule(uuid) to authenticated;

create function public.list_deliveries(p_org uuid, p_status text default null, p_before bigint default null,
  p_limit integer default 50)
returns jsonb language plpgsql stable set search_path = ''
as $$ begin return private.list_deliveries(p_org, p_status, p_before, p_limit); end $$;
comment on function public.list_deliveries(uuid, text, bigint, integer) is
  'Messages, newest first, with status, attempt and what comes next. Admins.';
grant execute on function public.list_deliveries(uuid, text, bigint, integer) to authenticated;

create function public.redeliver(p_delivery bigint)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.redeliver(p_delivery); end $$;
comment on function public.redeliver(bigint) is
  'Sends a message again, now, with the same event id. Admins.';
grant execute on function public.redeliver(bigint) to authenticated;

create function public.lease_deliveries(p_limit integer default 20)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.lease_deliveries(p_limit); end $$;
comment on function public.lease_deliveries(integer) is
  'Takes messages that are due, for the sender: the oldest of each rule and subject, with sealed addresses.';
grant execute on function public.lease_deliveries(integer) to service_role;

create function public.finish_delivery(p_delivery bigint, p_lease uuid, p_result jsonb)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.finish_delivery(p_delivery, p_lease, p_result); end $$;
comment on function public.finish_delivery(bigint, uuid, jsonb) is
  'Says how a message that was leased went {status, http_status, note, took_ms}; a failure is tried again after a '
  'pause.';
grant execute on function public.finish_delivery(bigint, uuid, jsonb) to service_role;

create function public.set_notifier_url(p_url text default null)
returns jsonb language plpgsql set search_path = ''
as $$ begin return private.set_notifier_url(p_url); end $$;
comment on function public.set_notifier_url(text) is
  'Says where the function that sends is, so that the sweep can wake it (pg_net).';
grant execute on function public.set_notifier_url(text) to service_role;

revoke execute on all functions in schema private, public from public;
