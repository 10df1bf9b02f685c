-- Broadcast from the database and the policies on private channels: realtime.messages and its functions.

create table if not exists realtime.messages (
  topic text not null,
  extension text not null,
  payload jsonb,
  event text,
  private boolean default false,
  updated_at timestamp not null default now(),
  inserted_at timestamp not null default now(),
  id uuid not null default gen_random_uuid(),
  primary key (id, inserted_at)
) partition by range (inserted_at);
alter table realtime.messages owner to supabase_realtime_admin;
alter table realtime.messages enable row level security;
grant select, insert, update on realtime.messages to anon, authenticated, service_role;
grant all on realtime.messages to postgres, dashboard_user;
create index if not exists messages_inserted_at_topic_index on realtime.messages (inserted_at desc, topic)
  where extension = 'broadcast' and private is true;

-- One partition a day, three days ahead, three days kept, as the hosted Realtime server does it.
create or replace function _realtime.maintain_messages() returns void
language plpgsql set search_path = '' as $$
declare
  today date := (pg_catalog.now() at time zone 'utc')::date;
  day date;
  old record;
begin
  for day in select generated::date from pg_catalog.generate_series(today - 1, today + 3, interval '1 day') as generated loop
    if pg_catalog.to_regclass(pg_catalog.format('realtime.messages_%s', pg_catalog.to_char(day, 'YYYY_MM_DD'))) is null then
      execute pg_catalog.format(
        'create table realtime.messages_%s partition of realtime.messages for values from (%L) to (%L)',
        pg_catalog.to_char(day, 'YYYY_MM_DD'), day, day + 1
      );
      execute pg_catalog.format(
        'alter table realtime.messages_%s owner to supabase_realtime_admin', pg_catalog.to_char(day, 'YYYY_MM_DD')
      );
      execute pg_catalog.format(
        'alter table realtime.messages_%s enable row level security', pg_catalog.to_char(day, 'YYYY_MM_DD')
      );
    end if;
  end loop;
  for old in
    select tablename
    from pg_catalog.pg_tables
    where schemaname = 'realtime'
      and tablename ~ '^messages_\d{4}_\d{2}_\d{2}$'
      and pg_catalog.to_date(pg_catalog.right(tablename, 10), 'YYYY_MM_DD') < today - 3
  loop
    execute pg_catalog.format('drop table realtime.%I', old.tablename);
  end loop;
end
$$;
grant usage on schema _realtime to supabase_realtime_admin;
select _realtime.maintain_messages();

-- The channel that a policy is evaluated for.
create or replace function realtime.topic() returns text
language sql stable as $$
  select nullif(current_setting('realtime.topic', true), '')::text
$$;
alter function realtime.topic() owner to supabase_realtime_admin;

-- Send to everybody on a channel. A failure is a warning: a broadcast must never undo the caller's own work.
create or replace function realtime.send(payload jsonb, event text, topic text, private boolean default true) returns void
language plpgsql as $$
declare
  message_id uuid := pg_catalog.gen_random_uuid();
  message jsonb := payload;
begin
  if pg_catalog.jsonb_typeof(message) = 'object' and not message ? 'id' then
    message := pg_catalog.jsonb_set(message, '{id}', pg_catalog.to_jsonb(message_id));
  end if;
  perform pg_catalog.set_config('realtime.topic', topic, true);
  insert into realtime.messages (id, payload, event, topic, private, extension)
  values (message_id, message, event, topic, private, 'broadcast');
exception
  when others then
    raise warning 'ErrorSendingBroadcastMessage: %', sqlerrm;
end
$$;
alter function realtime.send(jsonb, text, text, boolean) owner to supabase_realtime_admin;

do $$
begin
  if not exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime_messages_publication') then
    create publication supabase_realtime_messages_publication for table realtime.messages
      with (publish = 'insert', publish_via_partition_root = true);
    alter publication supabase_realtime_messages_publication owner to supabase_admin;
  end if;
end
$$;
