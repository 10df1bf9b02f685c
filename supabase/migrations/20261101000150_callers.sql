-- Callers: how far somebody has proved who they are. Auth signs a token for a password alone, too, and says so in it;
-- whether that is enough is decided here, once, and asked where the database learns who is calling: by every policy
-- (my_org_ids) and at the beginning of every act (need_role, need_person). Runners never come this way.
set lock_timeout = '5s';
set statement_timeout = '60s';

create function private.is_proved()
returns boolean
language plpgsql stable
set search_path = ''
as $$
declare
  v_claims pg_catalog.jsonb := private.jwt();
begin
  return coalesce(v_claims ->> 'aal', '') = 'aal2' or not exists (select from auth.mfa_factors as f
    where f.user_id = (v_claims ->> 'sub')::pg_catalog.uuid and f.status = 'verified');
end;
$$;
comment on function private.is_proved() is
  'Whether the caller has proved who they are as far as their account asks for it: somebody with two-step sign-in has '
  'given the code. The one place that decides it.';

create function private.need_proved()
returns void
language plpgsql stable
set search_path = ''
as $$
begin
  if not private.is_proved() then
    perform private.fail('RY403', 'This sign-in lacks its second step.',
      'Sign in again, and give the code of your authenticator app.');
  end if;
end;
$$;
comment on function private.need_proved() is 'Refuses a sign-in that lacks its second step.';

revoke execute on all functions in schema private from public;
