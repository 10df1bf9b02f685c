-- GitHub Apps: one for an organisation, created from a manifest without copying a key. GitHub leads the browser back to
-- the dashboard with a code; for the member who began the app, the function git exchanges it, seals the key and the
-- webhook secret and writes them here. The app's deliveries
-- name their repository, which is connected by its first one. Reports and fetches use tokens of its installation, for
-- an hour and one repository; a runner gets one for the attempt whose lease it holds.

create table public.git_apps (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references public.organizations (id) on delete cascade,
  url text not null check (url ~ '^https?://[^\s/@]+$' and length(url) <= 300),
  api_url text not null check (api_url ~ '^https?://[^\s@]+$' and length(api_url) <= 300),
  number bigint,
  slug text check (length(slug) <= 200),
  html_url text check (html_url ~ '^https?://' and length(html_url) <= 500),
  created_by uuid,
  created_by_label text not null,
  created_at timestamptz not null default now()
);
create index git_apps_org_id_idx on public.git_apps (org_id, created_at);
-- An app, with its installations, belongs to the organisation that created it.
create unique index git_apps_number_idx on public.git_apps (api_url, number);
comment on table public.git_apps is 'GitHub Apps of organisations; without a number one was begun and not created.';

create table private.git_app_secrets (
  app_id uuid primary key references public.git_apps (id) on delete cascade,
  state_hash text not null check (state_hash ~ '^[0-9a-f]{64}$'),
  webhook_secret text check (webhook_secret ~ '^s1\.[A-Za-z0-9_-]{40,}$' and length(webhook_secret) <= 8000),
  private_key text check (private_key ~ '^s1\.[A-Za-z0-9_-]{40,}$' and length(private_key) <= 8000)
);
comment on table private.git_app_secrets is 'Keys of GitHub Apps, sealed by an edge function with its own key.';
comment on column private.git_app_secrets.state_hash is 'Digest of the state that GitHub returns with its code.';

alter table public.git_connections add constraint git_connections_app_id_fkey
  foreign key (app_id) references public.git_apps (id) on delete set null;
create index git_connections_app_id_idx on public.git_connections (app_id) where app_id is not null;

-- ## creating
create function private.start_git_app(p_org uuid, p_state_hash text, p_url text default 'https://github.com')
returns jsonb language plpgsql security definer set search_path = '' as $$
declare
  v_app public.git_apps;
  v_url pg_catalog.text := rtrim(lower(trim(p_url)), '/');
begin
  perform private.need('git.manage', p_org);
  delete from public.git_apps where org_id = p_org and number is null and created_at < now() - interval '1 hour';
  perform private.fail('RY413', 'An organisation has at most 20 GitHub Apps.', 'Remove one first.')
  where (select count(*) from public.git_apps as a where a.org_id = p_org) >= 20;
  insert into public.git_apps (org_id, url, api_url, created_by, created_by_label)
  values (p_org, v_url, case when v_url = 'https://github.com' then 'https://api.github.com'
      else v_url || '/api/v3' end, private.caller_id(), private.caller_label(p_org)) returning * into v_app;
  insert into private.git_app_secrets (app_id, state_hash) values (v_app.id, p_state_hash);
  return to_jsonb(v_app);
exception when check_violation or not_null_violation then
  perform private.fail('RY422', 'The app cannot be begun.',
    'It needs the SHA-256 of a state, and GitHub''s address.');
end;
$$;
comment on function private.start_git_app is
  'Begins a GitHub App: GitHub returns its code within an hour, with the state of this digest. Admins.';

-- An app that was begun with this state; refuses one that was completed, or begun too long ago.
create function private.begun_app(p_app uuid, p_state_hash text, out v_app public.git_apps)
language plpgsql stable as $$
begin
  select a.* into v_app from public.git_apps as a join private.git_app_secrets as s on s.app_id = a.id
  where a.id = p_app and a.number is null and s.state_hash = p_state_hash and a.created_at > now() - interval '1 hour';
  perform private.fail('RY404', 'There is no such app to create.', 'Begin again in Settings → Git: a code is valid '
    'for an hour, and works once.') where v_app.id is null;
end;
$$;

create function private.pending_git_app(p_app uuid, p_state_hash text) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare
  v_app public.git_apps := private.begun_app(p_app, p_state_hash);
begin
  perform private.need('git.manage', v_app.org_id);
  perform private.fail('RY409', 'Somebody else began this app.', 'Sign in as they did, or begin one yourself.')
  where v_app.created_by is distinct from private.caller_id();
  return jsonb_build_object('org_id', v_app.org_id, 'api_url', v_app.api_url);
end;
$$;
comment on function private.pending_git_app is 'An app that the caller began with this state. Admins.';

create function private.complete_git_app(p_app uuid, p_state_hash text, p_spec jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_app public.git_apps := private.begun_app(p_app, p_state_hash);
begin
  update private.git_app_secrets set webhook_secret = p_spec ->> 'webhook_secret',
    private_key = p_spec ->> 'private_key' where app_id = p_app;
  update public.git_apps set number = (p_spec ->> 'number')::bigint, slug = p_spec ->> 'slug',
    html_url = p_spec ->> 'html_url' where id = p_app returning * into v_app;
  perform private.audit(v_app.org_id, 'git.app_created', 'git_app', p_app::pg_catalog.text, v_app.slug);
  return to_jsonb(v_app);
exception when unique_violation then
  perform private.fail('RY409', 'This GitHub App exists already.', 'Create one of your own in Settings → Git.');
end;
$$;
comment on function private.complete_git_app is
  'Notes what GitHub gave for the code {number, slug, html_url, webhook_secret, private_key}; both secrets are sealed.';

create function private.list_git_apps(p_org uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need('git.read', p_org);
  select coalesce(jsonb_agg(to_jsonb(a) || jsonb_build_object('repositories', (select count(*)
      from public.git_connections as c where c.app_id = a.id and c.removed_at is null)) order by a.created_at), '[]')
  from public.git_apps as a where a.org_id = p_org and a.number is not null
$$;
comment on function private.list_git_apps is 'GitHub Apps, and how many repositories each has. Members.';

create function private.remove_git_app(p_app uuid) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_app public.git_apps;
begin
  select * into v_app from public.git_apps where id = p_app and org_id in (select private.my_org_ids('module.read'));
  perform private.fail('RY404', 'There is no such app.', 'It may have been removed.') where v_app.id is null;
  perform private.need('git.manage', v_app.org_id);
  update private.git_secrets as s set token = null from public.git_connections as c
  where c.id = s.connection_id and c.app_id = p_app;
  update public.git_connections set has_token = false where app_id = p_app;
  delete from public.git_apps where id = p_app;
  perform private.audit(v_app.org_id, 'git.app_removed', 'git_app', p_app::pg_catalog.text, v_app.slug);
  return to_jsonb(v_app);
end;
$$;
comment on function private.remove_git_app is 'Removes a GitHub App and its key; repositories are polled. Admins.';

-- ## using
create function private.git_app_connection(p_app uuid, p_url text, p_installation bigint) returns uuid
language plpgsql security definer set search_path = '' as $$
declare
  v_app public.git_apps;
  v_secrets private.git_app_secrets;
  v_id pg_catalog.uuid;
begin
  select * into v_app from public.git_apps where id = p_app and number is not null;
  select * into v_secrets from private.git_app_secrets where app_id = p_app;
  -- Only what is at the app's own GitHub, and what modules use.
  if v_app.id is null or not starts_with(p_url, v_app.url || '/') or not exists (
    select from public.modules as m where m.org_id = v_app.org_id and m.deleted_at is null and m.source_kind = 'git'
      and private.repository_key(m.source ->> 'url') = private.repository_key(p_url)) then
    return null;
  end if;
  insert into public.git_connections as c (org_id, provider, url, repository, base_url, has_token, next_poll_at,
     app_id, installation_id, created_by_label)
  values (v_app.org_id, 'github', p_url, private.repository_key(p_url), v_app.api_url, true, now(), p_app,
    p_installation, v_app.slug)
  on conflict (org_id, repository) where removed_at is null do update set app_id = p_app, installation_id =
    p_installation, has_token = true, base_url = v_app.api_url, provider = 'github'
  where (c.app_id, c.installation_id) is distinct from (p_app, p_installation) returning c.id into v_id;
  if v_id is not null then
    insert into private.git_secrets (connection_id, webhook_secret, token)
    values (v_id, v_secrets.webhook_secret, v_secrets.private_key)
    on conflict (connection_id) do update set token = excluded.token;
  end if;
  return (select c.id from public.git_connections as c where c.org_id = v_app.org_id
    and c.repository = private.repository_key(p_url) and c.removed_at is null);
end;
$$;
comment on function private.git_app_connection is
  'The connection that an app''s delivery is about, made by the first one. Null where no module uses it.';

create function private.worker_repository(p_job bigint, p_attempt integer) returns uuid
language sql security definer set search_path = '' as $$
  select private.fail('RY410', format('The lease of attempt %s of job %s has run out.', p_attempt, p_job),
    'A token is for the attempt that holds its lease.')
  from private.fenced_job(private.this_runner(), p_job, p_attempt) as q where q.stage <> 'RUNNING';
  select c.id from public.provision_jobs as j join public.git_connections as c on c.org_id = j.org_id
    and c.removed_at is null and c.app_id is not null
    and (c.id = j.target_connection_id or c.repository = private.repository_key(j.payload #>> '{module,source,url}'))
  where j.id = p_job limit 1
$$;
comment on function private.worker_repository is
  'The connection whose GitHub App lets a running job fetch its repository; null where it has none.';

create function private.git_installation(p_connection uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select jsonb_build_object('org_id', c.org_id, 'api_url', a.api_url, 'number', a.number, 'installation',
    c.installation_id, 'repository', regexp_replace(c.repository, '^.*/', ''), 'private_key', s.private_key)
  from public.git_connections as c join public.git_apps as a on a.id = c.app_id
  join private.git_app_secrets as s on s.app_id = a.id
  where c.id = p_connection and c.removed_at is null
$$;
comment on function private.git_installation is
  'What a token of a repository''s installation is made with, for the functions git and notify; the key is sealed.';

create function private.git_connection_secret(p_connection uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select jsonb_build_object('org_id', c.org_id, 'provider', c.provider, 'webhook_secret', s.webhook_secret)
  from public.git_connections as c join private.git_secrets as s on s.connection_id = c.id
  where c.id = p_connection and c.removed_at is null and s.webhook_secret is not null
  union all
  select jsonb_build_object('org_id', a.org_id, 'provider', 'github', 'webhook_secret', s.webhook_secret, 'is_app',
    true)
  from public.git_apps as a join private.git_app_secrets as s on s.app_id = a.id
  where a.id = p_connection and s.webhook_secret is not null
$$;
comment on function private.git_connection_secret is
  'Provider and sealed webhook secret of a repository or an app, for receiving deliveries; null where there is none.';
