-- Signing in with the company's account. An organisation names an identity provider and proves its domains; Auth signs
-- people in and writes their identities; the triggers here decide whom an identity may be, and keep the teams.

create table private.sign_in_domains (
  org_id uuid not null references private.sign_in_providers (org_id) on delete cascade,
  domain text not null check (domain ~ '^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$'
    and length(domain) <= 253),
  proof text not null default translate(gen_random_uuid()::text || gen_random_uuid(), '-', ''),
  proved_at timestamptz,
  checked_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (org_id, domain)
);
create unique index sign_in_domains_proved_idx on private.sign_in_domains (domain) where proved_at is not null;
comment on table private.sign_in_domains is
  'Domains of an organisation. A proved one is its own alone: only for its addresses does the provider speak.';
comment on column private.sign_in_domains.domain is 'In lower case; its subdomains are others.';
comment on column private.sign_in_domains.proved_at is 'When DNS showed the proof; null until then.';
comment on column private.sign_in_domains.proof is 'What a TXT record of the domain has to say; no secret.';

create table private.sign_in_links (
  user_id uuid not null references auth.users (id) on delete cascade,
  org_id uuid not null references private.sign_in_providers (org_id) on delete cascade,
  expires_at timestamptz not null default now() + interval '15 minutes',
  is_test boolean not null default false,
  claims jsonb,
  primary key (user_id, org_id)
);
create index sign_in_links_org_id_idx on private.sign_in_links (org_id);
comment on table private.sign_in_links is
  'Accounts whose owners, signed in otherwise, agreed that the provider may sign them in; each for one first time.';
comment on column private.sign_in_links.is_test is 'Whether an owner only wants to see the claims: nothing is joined.';
comment on column private.sign_in_links.claims is 'What the provider said in that test.';

create function private.domain_of(p_email text) returns text language sql immutable as $$
  select lower(substring(p_email from '@([^@]+)$'))
$$;

-- The organisation whose provider speaks for an address.
create function private.provider_for(p_email text) returns private.sign_in_providers language sql stable as $$
  select p.* from private.sign_in_domains as d
  join private.sign_in_providers as p on p.org_id = d.org_id
  where d.domain = private.domain_of(p_email) and d.proved_at is not null
$$;

-- ## identities
-- Whether somebody used this account before: what signs in to it is not the one who just created it.
create function private.is_used_account(p_user uuid) returns boolean language sql stable as $$
  select exists (select from auth.identities as i where i.user_id = p_user)
    or exists (select from public.memberships as m where m.user_id = p_user)
    or exists (select from auth.users as u where u.id = p_user
      and (u.last_sign_in_at is not null or coalesce(u.encrypted_password, '') <> ''))
$$;

-- Refuses to join an identity to an account that somebody used before, unless its owner agreed in a session of their
-- own.
-- Somebody else may have created it with this address, and waited: what they know or hold ends.
create function private.need_link(p_provider private.sign_in_providers, p_user uuid, p_email text) returns void
language plpgsql as $$
begin
  if not private.is_used_account(p_user) then return; end if;
  delete from private.sign_in_links as l using auth.users as u
  where l.user_id = p_user and l.org_id = p_provider.org_id and l.expires_at > now() and not l.is_test and u.id = p_user
    and lower(u.email) = lower(p_email);
  perform private.fail('RY403', 'There is an account with this address already.', format(
    'Sign in with its password, or by "Forgot password?", and choose Account → Join %s.', p_provider.name))
  where not found;
  update auth.users set encrypted_password = null where id = p_user;
  delete from auth.sessions where user_id = p_user;
  delete from private.device_logins where decided_by = p_user;
  delete from private.personal_tokens where user_id = p_user;
end;
$$;

-- Whether the provider verified the address. Entra has no claim for it, and an administrator of a tenant writes any
-- address: only its domain's owner can be known.
create function private.is_verified_address(p_identity jsonb) returns boolean language sql immutable as $$
  select coalesce(p_identity ->> 'email_verified' = 'true'
    and (coalesce(p_identity ->> 'iss', '') not like 'https://login.microsoftonline.com/%'
      or p_identity -> 'custom_claims' ->> 'xms_edov' in ('1', 'true')), false)
$$;

-- An organisation's provider speaks for verified addresses of domains that the organisation proved, and for no other:
-- anybody can run a provider that claims anything. Auth itself believes every provider.
create function private.check_identity() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  v_provider private.sign_in_providers;
  v_email pg_catalog.text := new.identity_data ->> 'email';
begin
  select * into v_provider from private.sign_in_providers where provider = new.provider;
  if tg_op = 'UPDATE' and new.last_sign_in_at is null and new.identity_data = old.identity_data
    and new.user_id = old.user_id then
    return new;
  elsif v_provider.org_id is null and new.provider !~ '^custom:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
    return new;
  elsif v_provider.org_id is null then
    perform private.fail('RY403', 'No organisation signs people in with this provider (any more).', 'Ask an owner.');
  elsif new.provider like 'custom:%' and not private.is_verified_address(new.identity_data) then
    perform private.fail('RY403', format('%s has not verified this email address.', v_provider.name),
      'Ask its administrator.');
  elsif (private.provider_for(v_email)).org_id is distinct from v_provider.org_id then
    perform private.fail('RY403', format('The domain of %s is not proved.', left(v_email, 200)),
      'An owner proves it under Settings → Sign-in.');
  elsif tg_op = 'UPDATE' and (new.user_id, new.provider_id, new.provider)
    is distinct from (old.user_id, old.provider_id, old.provider) then
    perform private.fail('RY403', 'An identity stays with its account.', 'Nothing was changed.');
  elsif tg_op = 'INSERT' then
    -- An owner's test is one sign-in; its claims are kept.
    update private.sign_in_links set claims = new.identity_data, expires_at = now()
    where user_id = new.user_id and org_id = v_provider.org_id and is_test and expires_at > now();
    if found then return null; end if;
    perform private.need_link(v_provider, new.user_id, v_email);
  end if;
  return new;
end;
$$;
create trigger check_identity before insert or update on auth.identities for each row
  when (new.provider like 'custom:%' or new.provider like 'sso:%')
  execute function private.check_identity();

-- The groups of an identity: a list, or one text.
create function private.groups_of(p_identity jsonb, p_claim text) returns text[] language sql immutable as $$
  select case jsonb_typeof(c.value)
    when 'array' then array(select g from jsonb_array_elements_text(c.value) as g limit 5000)
    when 'string' then array[c.value #>> '{}'] else '{}' end
  from (select p_identity -> 'custom_claims' -> p_claim as value) as c
$$;

-- The teams that these groups fill.
create function private.claimed_teams(p_org uuid, p_groups text[]) returns setof public.teams language sql stable as $$
  select t.* from public.teams as t where t.org_id = p_org and t.claim = any (p_groups)
$$;

-- Writes to the log that the provider, and no member, changed something.
create function private.audit_claim(p_org uuid, p_action text, p_kind text, p_id uuid, p_label text, p_detail jsonb)
returns void language sql as $$
  insert into public.audit_events (org_id, actor_kind, actor_label, action, target_kind, target_id, target_label,
    detail)
  select p_org, 'system', p.name, p_action, p_kind, p_id::pg_catalog.text, p_label, p_detail
  from private.sign_in_providers as p where p.org_id = p_org
$$;

-- Makes the person a member, or ends a membership that a claim alone gave; whether they are one then. Never an owner.
create function private.claim_membership(
  p_provider private.sign_in_providers, p_user uuid, p_email text, p_has_team boolean
) returns boolean language plpgsql as $$
declare
  v_role public.member_role := coalesce(p_provider.default_role, case when p_has_team then 'guest'::public.member_role
    end);
begin
  if v_role is null then
    delete from public.memberships where org_id = p_provider.org_id and user_id = p_user and is_claimed;
    if found then
      perform private.audit_claim(p_provider.org_id, 'member.removed', 'member', p_user, p_email,
        jsonb_build_object('by', 'claim'));
    end if;
    return exists (select from public.memberships where org_id = p_provider.org_id and user_id = p_user);
  end if;
  insert into public.memberships (org_id, user_id, email, role, is_claimed)
  values (p_provider.org_id, p_user, p_email, v_role, true) on conflict do nothing;
  if found then
    perform private.audit_claim(p_provider.org_id, 'member.joined', 'member', p_user, p_email,
      jsonb_build_object('role', v_role, 'by', 'claim'));
  end if;
  return true;
end;
$$;

-- Puts a person into the teams of their groups and out of those whose group they left; what was done by hand stays.
create function private.sync_teams(p_provider private.sign_in_providers, p_user uuid, p_email text, p_groups text[])
returns void language plpgsql as $$
declare
  v_teams pg_catalog.uuid[] := array(select t.id from private.claimed_teams(p_provider.org_id, p_groups) as t);
  v_change pg_catalog.record;
begin
  if not private.claim_membership(p_provider, p_user, p_email, v_teams <> '{}') then return; end if;
  for v_change in
    with gone as (
      delete from public.team_members where org_id = p_provider.org_id and user_id = p_user and is_claimed
        and team_id <> all (v_teams) returning team_id
    ), come as (
      insert into public.team_members (team_id, org_id, user_id, is_claimed)
      select t, p_provider.org_id, p_user, true from unnest(v_teams) as t on conflict do nothing returning team_id
    )
    select t.id, t.name, 'team.member_removed' as action from gone as g join public.teams as t on t.id = g.team_id
    union all
    select t.id, t.name, 'team.member_added' from come as c join public.teams as t on t.id = c.team_id loop
    perform private.audit_claim(p_provider.org_id, v_change.action, 'team', v_change.id, v_change.name,
      jsonb_build_object('member', p_email, 'by', 'claim'));
  end loop;
end;
$$;

create function private.sync_identity() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  v_provider private.sign_in_providers;
  v_email pg_catalog.text := lower(new.identity_data ->> 'email');
begin
  select * into v_provider from private.sign_in_providers where provider = new.provider;
  if v_provider.org_id is null then return null; end if;
  insert into private.sign_in_confirmations (org_id, user_id, confirmed_at)
  values (v_provider.org_id, new.user_id, case when tg_op = 'INSERT' or new.last_sign_in_at is not null then now() end)
  on conflict (org_id, user_id) do update set confirmed_at = excluded.confirmed_at;
  if tg_op = 'INSERT' or new.last_sign_in_at is not null then
    perform private.sync_teams(v_provider, new.user_id, v_email,
      private.groups_of(new.identity_data, v_provider.claim));
  else
    update public.memberships set role = role where org_id = v_provider.org_id and user_id = new.user_id;
  end if;
  return null;
end;
$$;
create trigger sync_identity after insert or update on auth.identities for each row
  when (new.provider like 'custom:%' or new.provider like 'sso:%')
  execute function private.sync_identity();

-- An owner who comes in with the password while everybody else needs the provider is noted where owners look.
create function private.note_break_glass() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  insert into public.audit_events (org_id, actor_kind, actor_id, actor_label, action, target_kind, target_id,
    target_label, detail)
  select p.org_id, 'user', m.user_id, m.email, 'member.entered_without_provider', 'member', m.user_id::pg_catalog.text,
    m.email, jsonb_build_object('method', new.authentication_method)
  from auth.sessions as s join private.sign_in_providers as p on p.break_glass = s.user_id and p.is_only
  join public.memberships as m on m.org_id = p.org_id and m.user_id = s.user_id
  where s.id = new.session_id;
  return null;
end;
$$;
create trigger note_break_glass after insert on auth.mfa_amr_claims for each row
  when (new.authentication_method not in ('oauth', 'sso/saml', 'totp'))
  execute function private.note_break_glass();

-- A test joins nothing, so nobody comes in by it: Auth itself would open a session for the account.
create function private.refuse_tester() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  perform private.fail('RY403', 'This sign-in was a test.', 'Nobody was signed in.')
  where not exists (select from auth.sessions as s join auth.identities as i on i.user_id = s.user_id
    where s.id = new.session_id and i.provider not in ('email', 'phone'));
  return new;
end;
$$;
create trigger refuse_tester before insert on auth.mfa_amr_claims for each row
  when (new.authentication_method = 'oauth')
  execute function private.refuse_tester();

-- ## settings
-- The provider of an organisation whose owner calls, locked.
create function private.my_provider(p_org uuid, out v_provider private.sign_in_providers) language plpgsql as $$
begin
  perform private.need('member.own', p_org);
  select * into v_provider from private.sign_in_providers where org_id = p_org for update;
  perform private.fail('RY404', 'This organisation has no identity provider.', 'Set it up under Settings → Sign-in.')
  where v_provider.org_id is null;
end;
$$;

create function private.set_sign_in_provider(
  p_org uuid, p_name text, p_issuer text, p_client_id text, p_secret_hint text default null,
  p_claim text default 'groups'
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_provider private.sign_in_providers;
begin
  perform private.need('member.own', p_org);
  select * into v_provider from private.sign_in_providers where org_id = p_org for update;
  -- A subject is a person at its issuer alone: at another one the same subject is somebody else.
  perform private.fail('RY409', 'The issuer of a provider stays.', 'Remove the provider, and set up the other one.')
  where v_provider.issuer <> p_issuer;
  insert into private.sign_in_providers as p (org_id, provider, name, issuer, client_id, claim, secret_hint,
    secret_set_at)
  values (p_org, 'custom:' || p_org, trim(p_name), p_issuer, p_client_id, p_claim, coalesce(p_secret_hint, ''),
    case when p_secret_hint is not null then now() end)
  on conflict (org_id) do update set name = excluded.name, client_id = excluded.client_id, claim = excluded.claim,
    secret_hint = coalesce(p_secret_hint, p.secret_hint),
    secret_set_at = coalesce(excluded.secret_set_at, p.secret_set_at)
  returning * into v_provider;
  perform private.audit(p_org, 'sign_in.provider_set', 'organization', p_org::pg_catalog.text, v_provider.name,
    jsonb_build_object('issuer', p_issuer, 'client_id', p_client_id, 'claim', p_claim,
      'has_new_secret', p_secret_hint is not null));
  return to_jsonb(v_provider);
exception when check_violation or not_null_violation then
  perform private.fail('RY422', 'The provider''s name, issuer, client id, secret or claim is not valid.',
    'A name has 1 to 60 characters; an issuer is an address such as https://id.example.com.');
end;
$$;
comment on function private.set_sign_in_provider is
  'Names the identity provider of an organisation, or changes all but its issuer. The edge function sign-in gives the '
  'secret to Auth. Owners.';

create function private.remove_sign_in_provider(p_org uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_provider private.sign_in_providers := private.my_provider(p_org);
begin
  perform private.fail('RY409', 'Members enter through this provider only.', 'Allow any way of signing in first.')
  where v_provider.is_only;
  delete from auth.identities where provider = v_provider.provider;
  delete from private.sign_in_providers where org_id = p_org;
  delete from public.team_members where org_id = p_org and is_claimed;
  perform private.audit(p_org, 'sign_in.provider_removed', 'organization', p_org::pg_catalog.text, v_provider.name);
  return to_jsonb(v_provider);
end;
$$;
comment on function private.remove_sign_in_provider is
  'Removes the identity provider with its domains and everybody''s identity there. Members stay, and sign in with a '
  'password; teams lose whom a claim put there. Owners.';

create function private.set_sign_in_rules(
  p_org uuid, p_default_role public.member_role, p_is_only boolean, p_break_glass uuid, p_hours integer default 24
) returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_provider private.sign_in_providers := private.my_provider(p_org);
begin
  if p_is_only and not exists (select from public.memberships as m join auth.users as u on u.id = m.user_id
    where m.org_id = p_org and m.user_id = p_break_glass and m.role = 'owner'
      and coalesce(u.encrypted_password, '') <> '') then
    perform private.fail('RY422', 'Choose an owner with a password, who can enter when the provider is away.');
  elsif p_is_only and not exists (select from private.sign_in_confirmations as c
    where c.org_id = p_org and c.user_id = private.caller_id() and private.is_confirmed(p_org, c.user_id)) then
    perform private.fail('RY409', format('You have not signed in through %s yet.', v_provider.name),
      'Do it once, so that it is known to work; then nobody is locked out.');
  end if;
  update private.sign_in_providers set default_role = p_default_role, is_only = coalesce(p_is_only, false),
    break_glass = case when p_is_only then p_break_glass end, hours = coalesce(p_hours, 24)
  where org_id = p_org;
  -- Open pages are drawn again for those who may still see them.
  update public.memberships set role = role where org_id = p_org;
  perform private.audit(p_org, 'sign_in.rules_set', 'organization', p_org::pg_catalog.text, v_provider.name,
    jsonb_build_object('default_role', p_default_role, 'is_only', p_is_only, 'break_glass', p_break_glass,
      'hours', p_hours));
  return private.sign_in_settings(p_org);
exception when check_violation then
  perform private.fail('RY422', 'A default role is operator, viewer or guest; a sign-in counts for 1 to 720 hours.');
end;
$$;
comment on function private.set_sign_in_rules is
  'How members enter: any way, or through the provider only, but for one owner; the role of a new member in no mapped '
  'group (null: none); and for how many hours the provider''s word counts. Owners.';

-- A domain as its owner sees it, with the record that proves it.
create function private.domain_row(p_domain private.sign_in_domains) returns jsonb language sql stable as $$
  select to_jsonb(p_domain) - array['proof', 'org_id'] || jsonb_build_object('record', '_runyard.' || p_domain.domain,
    'value', 'runyard-proof=' || p_domain.proof)
$$;

create function private.add_sign_in_domain(p_org uuid, p_domain text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_provider private.sign_in_providers := private.my_provider(p_org);
  v_domain private.sign_in_domains;
begin
  perform private.fail('RY413', 'This organisation has 100 domains, which is the limit.', 'Remove one first.')
  where (select count(*) from private.sign_in_domains where org_id = p_org) >= 100;
  insert into private.sign_in_domains (org_id, domain) values (p_org, lower(trim(p_domain))) returning * into v_domain;
  perform private.audit(p_org, 'sign_in.domain_added', 'organization', p_org::pg_catalog.text, v_domain.domain);
  return private.domain_row(v_domain);
exception
  when unique_violation then
    perform private.fail('RY409', 'This domain is listed already.', 'Prove it by its DNS record.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'That is not a domain.', 'Write it like example.com.');
end;
$$;
comment on function private.add_sign_in_domain is 'Lists a domain, and answers the DNS record to prove it. Owners.';

create function private.remove_sign_in_domain(p_org uuid, p_domain text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_provider private.sign_in_providers := private.my_provider(p_org);
  v_domain private.sign_in_domains;
begin
  delete from private.sign_in_domains where org_id = p_org and domain = p_domain returning * into v_domain;
  perform private.fail('RY404', 'This organisation has no such domain.') where v_domain.domain is null;
  delete from auth.identities as i
  where i.provider = v_provider.provider and private.domain_of(i.identity_data ->> 'email') = p_domain;
  perform private.audit(p_org, 'sign_in.domain_removed', 'organization', p_org::pg_catalog.text, p_domain);
  return private.domain_row(v_domain);
end;
$$;
comment on function private.remove_sign_in_domain is 'Removes a domain: its addresses sign nobody in. Owners.';

create function private.prove_sign_in_domain(p_org uuid, p_domain text, p_texts text[]) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_domain private.sign_in_domains;
begin
  update private.sign_in_domains set checked_at = now(), proved_at = coalesce(proved_at, case
    when ('runyard-proof=' || proof) = any (p_texts) then now() end)
  where org_id = p_org and domain = p_domain returning * into v_domain;
  perform private.fail('RY404', 'This organisation has no such domain.') where v_domain.domain is null;
  perform private.audit(p_org, 'sign_in.domain_proved', 'organization', p_org::pg_catalog.text, p_domain)
  where v_domain.proved_at = now();
  return private.domain_row(v_domain);
exception when unique_violation then
  perform private.fail('RY409', 'Another organisation of this installation has proved this domain.',
    'Ask the operator of the installation.');
end;
$$;
comment on function private.prove_sign_in_domain is
  'Notes what DNS says about a domain; with its proof among the texts, the domain is proved. Edge functions only.';

create function private.set_team_claim(p_team uuid, p_claim text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_team public.teams := private.my_team(p_team);
begin
  perform private.need('member.own', v_team.org_id);
  update public.teams set claim = nullif(trim(p_claim), '') where id = p_team returning * into v_team;
  delete from public.team_members where team_id = p_team and is_claimed;
  return private.audited(to_jsonb(v_team), 'team.claim_set', v_team.name, jsonb_build_object('claim', v_team.claim));
exception
  when unique_violation then
    perform private.fail('RY409', 'Another team is filled by this group.', 'A group fills one team.');
  when check_violation then
    perform private.fail('RY422', 'A group''s name has at most 255 characters.');
end;
$$;
comment on function private.set_team_claim is
  'Fills a team by a group at the identity provider, from next sign-ins on; without one, by hand alone. Owners.';

-- The claims of the caller's own last sign-in through the provider, or of a test of it, and the teams they fill.
create function private.my_claims(p_provider private.sign_in_providers) returns jsonb language sql stable as $$
  select jsonb_build_object('claims', said.claims, 'confirmed_at', (select c.confirmed_at
      from private.sign_in_confirmations as c where c.org_id = p_provider.org_id and c.user_id = private.caller_id()),
    'teams', array(select t.name from private.claimed_teams(p_provider.org_id,
      private.groups_of(said.claims, p_provider.claim)) as t order by t.name),
    'groups', private.groups_of(said.claims, p_provider.claim), 'is_test', said.is_test)
  from (
    select i.identity_data as claims, false as is_test from auth.identities as i
    where i.provider = p_provider.provider and i.user_id = private.caller_id()
    union all
    select l.claims, true from private.sign_in_links as l
    where l.org_id = p_provider.org_id and l.user_id = private.caller_id() and l.is_test and l.claims is not null
    order by is_test limit 1
  ) as said
$$;

create function private.sign_in_settings(p_org uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need('member.manage', p_org);
  select jsonb_build_object('provider', case when p.org_id is not null then to_jsonb(p) end,
    'domains', (select coalesce(jsonb_agg(private.domain_row(d) order by d.domain), '[]')
      from private.sign_in_domains as d where d.org_id = p_org),
    'teams', (select coalesce(jsonb_agg(jsonb_build_object('id', t.id, 'name', t.name, 'claim', t.claim)
      order by t.name), '[]') from public.teams as t where t.org_id = p_org),
    'owners', (select coalesce(jsonb_agg(jsonb_build_object('id', m.user_id, 'email', m.email) order by m.email), '[]')
      from public.memberships as m where m.org_id = p_org and m.role = 'owner'),
    'outside', (select coalesce(jsonb_agg(m.email order by m.email), '[]') from public.memberships as m
      where m.org_id = p_org and not private.has_identity(m.user_id, p.provider)),
    'mine', private.my_claims(p))
  from (select) as one left join private.sign_in_providers as p on p.org_id = p_org
$$;
comment on function private.sign_in_settings is
  'How members sign in: {provider, domains, teams, owners, outside: who never signed in through the provider, mine: '
  'the claims of the caller''s own last sign-in or test there}. Admins.';

-- ## people
create function private.sign_in_provider_of(p_email text) returns jsonb
language sql stable security definer set search_path = '' as $$
  select jsonb_build_object('provider', p.provider, 'name', p.name, 'is_only', p.is_only)
  from private.provider_for(p_email) as p where p.org_id is not null
$$;
comment on function private.sign_in_provider_of is
  'The identity provider of an address {provider, name, is_only}, with or without an account. Edge functions only.';

create function private.allow_sign_in_link(p_is_test boolean default false) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_provider private.sign_in_providers;
begin
  perform private.need_person();
  perform private.refuse_personal_token();
  v_provider := private.provider_for((select u.email from auth.users as u where u.id = private.caller_id()));
  perform private.fail('RY404', 'No identity provider speaks for your address.',
    'An owner proves its domain under Settings → Sign-in.')
  where v_provider.org_id is null;
  -- In a test the account is at the provider's word without having joined it: for those who answer for the provider.
  perform private.need('member.own', v_provider.org_id) where p_is_test;
  insert into private.sign_in_links (user_id, org_id, is_test)
  values (private.caller_id(), v_provider.org_id, coalesce(p_is_test, false))
  on conflict (user_id, org_id) do update
  set expires_at = excluded.expires_at, is_test = excluded.is_test, claims = null;
  return jsonb_build_object('provider', v_provider.provider, 'name', v_provider.name);
end;
$$;
comment on function private.allow_sign_in_link is
  'Allows the provider of the caller''s domain to join this account, at its first sign-in within a quarter of an hour '
  '{provider, name}. Everybody who is signed in. As a test that sign-in only notes its claims: owners.';
