-- Whether Auth still has a session: a private channel stops when its reader has signed out. The Realtime server has
-- no other way into Auth's tables.
create or replace function _realtime.has_session(id uuid)
returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (select from auth.sessions as s where s.id = has_session.id)
$$;
alter function _realtime.has_session(uuid) owner to supabase_auth_admin;
revoke execute on function _realtime.has_session(uuid) from public;
grant execute on function _realtime.has_session(uuid) to authenticator;
