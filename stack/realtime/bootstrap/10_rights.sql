-- Functions of the Realtime server beyond plain queries. It connects as authenticator, which may
-- become the API roles and nothing else: a token that names another role is refused by PostgreSQL itself.

grant usage on schema _realtime to authenticator, supabase_realtime_admin;

-- For each viewer (a role with its claims), which of the rows named by `keys` it may see now. `query` is made by
-- the server from the catalogue and selects the positions of visible keys; it is planned once per connection and role
-- under the name `plan_name`, which makes 200 viewers cost 7 ms instead of 24. A policy that fails shows nothing to
-- its own viewer, and must not take the rows from the others.
-- Every name here is qualified; the search_path is hosted's own, for functions that policies call without naming their
-- schema. Without one `supabase db advisors` warns (tests/contract/test_supabase_cli.py).
create or replace function _realtime.visible_rows(
  plan_name text, query text, keys jsonb, roles text[], claims text[]
)
returns table (viewer integer, key integer)
language plpgsql set search_path = public, extensions as $$
declare
  position integer;
begin
  perform pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true);
  for position in 1 .. pg_catalog.cardinality(roles) loop
    begin
      perform
        pg_catalog.set_config('role', roles[position], true),
        pg_catalog.set_config('request.jwt.claims', claims[position], true);
      -- As the viewer: only a role that may use the schema can name the table.
      if not exists (select from pg_catalog.pg_prepared_statements p where p.name = plan_name) then
        execute pg_catalog.format('prepare %I (jsonb, integer) as %s', plan_name, query);
      end if;
      return query execute pg_catalog.format('execute %I (%L, %s)', plan_name, keys, position);
    exception
      when others then
        raise warning 'RlsPolicyError: %', sqlerrm;
    end;
  end loop;
end
$$;
revoke execute on function _realtime.visible_rows(text, text, jsonb, text[], text[]) from public;
grant execute on function _realtime.visible_rows(text, text, jsonb, text[], text[]) to authenticator;

-- Whether somebody may read a topic: they see a broadcast in it, which is taken back. Everything is set as REST sets
-- it, with the channel's topic for policies to look at. One call, as thousands of channels are checked again and again.
create or replace function _realtime.may_read(topic text, role text, claims text, sub text, headers text)
returns boolean
language plpgsql set search_path = public, extensions as $$
declare
  probe uuid;
  may boolean;
begin
  -- The commit keeps nothing, and waits for no disk.
  perform pg_catalog.set_config('synchronous_commit', 'off', true);
  begin
    perform pg_catalog.set_config('role', 'service_role', true);
    insert into realtime.messages (topic, extension, private)
    values (may_read.topic, 'broadcast', true) returning id into probe;
    perform
      pg_catalog.set_config('role', may_read.role, true),
      pg_catalog.set_config('realtime.topic', may_read.topic, true),
      pg_catalog.set_config('request.jwt.claims', claims, true),
      pg_catalog.set_config('request.jwt.claim.sub', sub, true),
      pg_catalog.set_config('request.jwt.claim.role', may_read.role, true),
      pg_catalog.set_config('request.headers', headers, true);
    may := exists (select from realtime.messages as m where m.topic = may_read.topic and m.id = probe);
    raise exception using errcode = 'RYBCK';
  exception when sqlstate 'RYBCK' then return may;
  end;
end
$$;
revoke execute on function _realtime.may_read(text, text, text, text, text) from public;
grant execute on function _realtime.may_read(text, text, text, text, text) to authenticator;
