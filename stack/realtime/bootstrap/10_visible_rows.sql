-- What the Realtime server asks of the database beyond plain queries. It connects as authenticator, which may
-- become the API roles and nothing else: a token that names another role is refused by PostgreSQL itself.

grant usage on schema _realtime to authenticator, supabase_realtime_admin;

-- For each viewer (a role with its claims), which of the rows named by `keys` it may see now. `query` is made by
-- the server from the catalogue and selects the positions of visible keys. A policy that fails shows nothing to its
-- own viewer, and must not take the rows from the others.
-- Every name here is qualified; the search_path is hosted's, for functions that policies call without naming their schema.
create or replace function _realtime.visible_rows(query text, keys jsonb, roles text[], claims text[])
returns table (viewer integer, key integer)
language plpgsql set search_path = public, extensions as $$
declare
  position integer;
begin
  for position in 1 .. pg_catalog.cardinality(roles) loop
    begin
      perform
        pg_catalog.set_config('role', roles[position], true),
        pg_catalog.set_config('request.jwt.claims', claims[position], true);
      return query execute query using keys, position;
    exception
      when others then
        raise warning 'RlsPolicyError: %', sqlerrm;
    end;
  end loop;
end
$$;
revoke execute on function _realtime.visible_rows(text, jsonb, text[], text[]) from public;
grant execute on function _realtime.visible_rows(text, jsonb, text[], text[]) to authenticator;
