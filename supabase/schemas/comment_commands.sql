-- Commands in comments: /runyard plan|apply|confirm|unlock|help [module], on pull requests. The signed delivery proves
-- who wrote the comment at the provider; an admin links that login to a member, or the member proves it with a code,
-- and the command is done as that member, with the rights that they have on the module. Each comment is read once, and
-- acknowledged by a reaction.

create table public.git_logins (
  org_id uuid not null references public.organizations (id) on delete cascade,
  host text not null check (host = lower(host) and length(host) between 1 and 255),
  login text not null check (login = lower(login) and length(login) between 1 and 200),
  user_id uuid not null,
  account_id text check (length(account_id) <= 40),
  proved_at timestamptz,
  created_by_label text not null,
  created_at timestamptz not null default now(),
  primary key (org_id, host, login),
  foreign key (org_id, user_id) references public.memberships (org_id, user_id) on delete cascade
);
create index git_logins_user_id_idx on public.git_logins (org_id, user_id);
comment on table public.git_logins is 'Members'' logins at git providers: commands in their comments are done as them.';
comment on column public.git_logins.account_id is
  'The provider''s number of the account, from its first command: a login that changed hands is refused.';
comment on column public.git_logins.proved_at is
  'When that login wrote the member''s code; null: an admin linked it, so it neither approves nor applies.';

create table private.ended_git_logins (
  org_id uuid not null references public.organizations (id) on delete cascade,
  host text not null,
  login text not null,
  user_id uuid not null,
  account_id text not null,
  ended_at timestamptz not null,
  primary key (org_id, host, login, user_id, account_id)
);
comment on table private.ended_git_logins is 'Ended links: what the login did until then is that member''s change.';
comment on column private.ended_git_logins.account_id is 'The number of the account at the host; empty: not known.';
comment on column private.ended_git_logins.ended_at is
  'Infinity for a link that the member had proved or ended: it is their account, whatever the list says.';

create table private.git_link_codes (
  org_id uuid not null references public.organizations (id) on delete cascade,
  user_id uuid not null,
  host text not null check (host = lower(host) and length(host) between 1 and 255),
  login text not null check (login = lower(login) and length(login) between 1 and 200),
  code_hash text not null,
  expires_at timestamptz not null,
  primary key (org_id, user_id),
  foreign key (org_id, user_id) references public.memberships (org_id, user_id) on delete cascade
);
comment on table private.git_link_codes is
  'Codes by which members prove a login: a comment with the code, written by that login. For no other login, so '
  'everybody may read the comment.';
comment on column private.git_link_codes.expires_at is 'Half an hour after it was requested.';

create table private.git_commands (
  delivery_id bigint primary key references public.git_deliveries (id) on delete cascade,
  connection_id uuid not null references public.git_connections (id) on delete cascade,
  comment_id bigint not null,
  pull_request integer not null,
  is_done boolean not null default false,
  answer text check (length(answer) <= 2000),
  unique (connection_id, comment_id)
);
comment on table private.git_commands is 'Comments that were commands, once each; they go with their deliveries.';
comment on column private.git_commands.answer is 'What is written below it; null: a reaction is enough.';

-- ## links
-- Notes the link of a login that ends, or whose proof does; also where its member leaves.
create function private.end_git_login() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  insert into private.ended_git_logins as e (org_id, host, login, user_id, account_id, ended_at)
  select old.org_id, old.host, old.login, old.user_id, coalesce(old.account_id, ''), case
    when old.proved_at is not null or old.user_id = private.caller_id() then 'infinity' else now() end
  from public.organizations as o where o.id = old.org_id
  on conflict (org_id, host, login, user_id, account_id) do update set
    ended_at = greatest(e.ended_at, excluded.ended_at);
  return null;
end;
$$;
create trigger end_login after delete on public.git_logins for each row execute function private.end_git_login();
create trigger end_changed_login after update on public.git_logins for each row
  when (new.user_id <> old.user_id or old.proved_at is not null and new.proved_at is null)
  execute function private.end_git_login();

create function private.link_git_login(p_org uuid, p_user uuid, p_host text, p_login text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_link public.git_logins;
  v_host pg_catalog.text := lower(trim(p_host));
  v_login pg_catalog.text := lower(trim(leading '@' from trim(p_login)));
begin
  perform private.need('member.manage', p_org);
  insert into public.git_logins as l (org_id, host, login, user_id, created_by_label)
  values (p_org, v_host, v_login, p_user, private.caller_label(p_org))
  on conflict (org_id, host, login) do update set user_id = excluded.user_id, created_by_label =
    excluded.created_by_label, created_at = now(), proved_at = null,
    account_id = case when l.user_id = p_user then l.account_id end returning * into v_link;
  perform private.audit(p_org, 'member.login_linked', 'member', p_user::pg_catalog.text, v_link.login,
    jsonb_build_object('host', v_link.host));
  return to_jsonb(v_link);
exception
  when foreign_key_violation then
    perform private.fail('RY404', 'There is no such member.', 'Invite them first.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A link needs a host and a login.', 'Such as github.com and octocat.');
end;
$$;
comment on function private.link_git_login is
  'Links a login at a git provider to a member: commands in that login''s comments are done as the member, except '
  'those that approve or apply. Admins.';

create function private.request_git_link(p_org uuid, p_host text, p_login text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_code pg_catalog.text := substr(replace(gen_random_uuid()::pg_catalog.text, '-', ''), 1, 16);
  v_code_row private.git_link_codes;
begin
  perform private.need('organization.read', p_org);
  -- The login acts as the person, without the token's limits and after its end.
  perform private.refuse_personal_token();
  insert into private.git_link_codes as c (org_id, user_id, host, login, code_hash, expires_at)
  values (p_org, private.caller_id(), lower(trim(p_host)), lower(trim(leading '@' from trim(p_login))),
    encode(sha256(v_code::pg_catalog.bytea), 'hex'), now() + interval '30 minutes')
  on conflict (org_id, user_id) do update set host = excluded.host, login = excluded.login,
    code_hash = excluded.code_hash, expires_at = excluded.expires_at returning * into v_code_row;
  return jsonb_build_object('host', v_code_row.host, 'login', v_code_row.login, 'comment', '/runyard link ' || v_code,
    'expires_at', v_code_row.expires_at);
exception
  when foreign_key_violation then
    perform private.fail('RY409', 'A service account has no login of its own.', 'Sign in yourself.');
  when check_violation or not_null_violation then
    perform private.fail('RY422', 'A link needs a host and a login.', 'Such as github.com and octocat.');
end;
$$;
comment on function private.request_git_link is
  'The comment that proves a login of the caller: {comment, host, login, expires_at}. That login writes it on any pull '
  'request of a connected repository within half an hour. Members.';

-- Links the login that wrote a comment to the member whose code it contains.
create function private.prove_login(p_connection public.git_connections, p_login text, p_comment jsonb) returns uuid
language plpgsql as $$
declare
  v_code private.git_link_codes;
begin
  delete from private.git_link_codes where org_id = p_connection.org_id and login = lower(p_login)
    and host = split_part(p_connection.repository, '/', 1) and expires_at > now()
    and code_hash = encode(sha256((p_comment ->> 'argument')::pg_catalog.bytea), 'hex') returning * into v_code;
  perform private.fail('RY403', 'This code is not valid for your login.', 'Request a new one in Settings → Git.')
  where v_code.user_id is null;
  insert into public.git_logins as l (org_id, host, login, user_id, account_id, proved_at, created_by_label)
  select v_code.org_id, v_code.host, v_code.login, v_code.user_id, p_comment ->> 'sender_id', now(), m.email
  from public.memberships as m where m.org_id = v_code.org_id and m.user_id = v_code.user_id
  on conflict (org_id, host, login) do update set account_id = excluded.account_id, proved_at = now(),
    created_at = now()
  where l.user_id = excluded.user_id and coalesce(l.account_id, excluded.account_id) = excluded.account_id;
  perform private.fail('RY409', 'This login is linked to another member or account.',
    'End that link first, or ask an admin.') where not found;
  return v_code.user_id;
end;
$$;

create function private.unlink_git_login(p_org uuid, p_host text, p_login text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  v_link public.git_logins;
  v_host pg_catalog.text := lower(trim(p_host));
  v_login pg_catalog.text := lower(trim(leading '@' from trim(p_login)));
begin
  perform private.need('organization.read', p_org);
  perform private.need('member.manage', p_org)
  where not exists (select from public.git_logins as l where l.org_id = p_org and l.host = v_host
    and l.login = v_login and l.user_id = private.caller_id());
  delete from public.git_logins where org_id = p_org and host = v_host and login = v_login returning * into v_link;
  perform private.fail('RY404', 'There is no such link.', 'It may have been removed.') where v_link.org_id is null;
  perform private.audit(p_org, 'member.login_unlinked', 'member', v_link.user_id::pg_catalog.text, v_link.login,
    jsonb_build_object('host', v_link.host));
  perform private.wake_org(p_org, 'git_logins', v_link.user_id::pg_catalog.text);
  return to_jsonb(v_link);
end;
$$;
comment on function private.unlink_git_login is 'Ends the link of a git login. Admins; members end their own.';

create function private.list_git_logins(p_org uuid) returns jsonb
language sql stable security definer set search_path = '' as $$
  select private.need('git.read', p_org);
  select coalesce(jsonb_agg(to_jsonb(l) || jsonb_build_object('email', m.email) order by l.host, l.login), '[]')
  from public.git_logins as l join public.memberships as m on m.org_id = l.org_id and m.user_id = l.user_id
  where l.org_id = p_org
$$;
comment on function private.list_git_logins is 'Logins at git providers, and whose they are. Members.';

-- ## doing
-- The member whose login wrote a comment. The first comment notes the number of the account. A login that an admin
-- linked neither approves nor applies: the admin could own it.
create function private.commander(p_connection public.git_connections, p_login text, p_comment jsonb) returns uuid
language plpgsql as $$
declare
  v_link public.git_logins;
begin
  update public.git_logins as l set account_id = coalesce(l.account_id, p_comment ->> 'sender_id')
  where l.org_id = p_connection.org_id and l.host = split_part(p_connection.repository, '/', 1)
    and l.login = lower(p_login) and coalesce(l.account_id, p_comment ->> 'sender_id') = p_comment ->> 'sender_id'
  returning * into v_link;
  if v_link.user_id is null then
    perform private.fail('RY403', 'This account is not linked to a member of the organisation.',
      'Link it in Settings → Git, or ask an admin.');
  elsif v_link.proved_at is null and p_comment ->> 'verb' in ('confirm', 'apply') then
    perform private.fail('RY403', 'An admin linked this account, so its comments neither approve nor apply.',
      'Prove that it is yours: Settings → Git → Logins, or runyard git link-me.');
  end if;
  return v_link.user_id;
end;
$$;

-- The modules that a command is about: the one that it names, or all that its pull request is planned for.
create function private.commanded_modules(p_connection public.git_connections, p_pull public.pull_requests, p_path text)
returns setof public.modules language plpgsql stable as $$
begin
  return query select m.* from private.modules_of_connection(p_connection) as m
  where private.may_see(m.org_id, m.path)
    and (m.path = p_path or p_path is null and p_pull.planned ? m.id::pg_catalog.text);
  perform private.fail('RY404', format('There is no module "%s" in this repository.', left(p_path, 200)),
    'Write its whole path, such as platform/network.') where not found and p_path is not null;
end;
$$;

-- Confirms what waits of a pull request, and reviews plans that wait for nobody.
create function private.confirm_pull(p_pull public.pull_requests, p_modules public.modules[]) returns void
language plpgsql as $$
declare
  v_job bigint;
  v_count integer := 0;
begin
  perform private.lock_module_states(p_pull.org_id, array(select m.id from unnest(p_modules) as m));
  for v_job in
    select coalesce(a.id, p.id) from unnest(p_modules) as m
    cross join lateral (select (private.current_pull_plan(p_pull, m.id)).*) as p
    left join public.provision_jobs as a on a.plan_job_id = p.id and a.status = 'AWAITING_APPROVAL'
    where a.id is not null or p.status = 'SUCCEEDED' and p.plan_summary -> 'has_changes' = 'true'
      and not exists (select from public.provision_jobs as o where o.plan_job_id = p.id)
    order by m.path loop
    perform private.approve_job(v_job, 'approve', format('By a comment on #%s.', p_pull.number));
    v_count := v_count + 1;
  end loop;
  perform private.fail('RY409', format('Nothing of #%s waits for a confirmation.', p_pull.number),
    'Wait for its plans to end.') where v_count = 0;
end;
$$;

-- Does a command as the caller; the answer, where a reaction says too little.
create function private.do_command(p_connection public.git_connections, p_number integer, p_comment jsonb) returns text
language plpgsql as $$
declare
  v_pull public.pull_requests;
  v_word pg_catalog.text := nullif(p_comment ->> 'argument', '');
  v_path pg_catalog.text := case when v_word !~ '^[0-9a-f]{40,64}$' and p_comment ->> 'verb' <> 'link'
    then v_word end;
  v_modules public.modules[];
begin
  select * into v_pull from public.pull_requests where connection_id = p_connection.id and number = p_number;
  v_modules := array(select m from private.commanded_modules(p_connection, v_pull, v_path) as m);
  case p_comment ->> 'verb'
    when 'help' then
      return 'Commands: /runyard plan [module] · /runyard apply [module], before the merge · /runyard confirm [module]'
        || ' · /runyard unlock [module] · /runyard plan COMMIT, for a fork.';
    when 'plan' then
      perform private.plan_pull_request(p_connection.id, p_number, case when v_path is not null
        then v_modules[1].id end, v_word);
    when 'apply' then
      perform private.apply_pull_request(p_connection.id, p_number, case when v_path is not null
        then v_modules[1].id end);
    when 'confirm' then perform private.confirm_pull(v_pull, v_modules);
    when 'unlock' then
      perform private.unlock_module(l.module_id) from public.module_locks as l join unnest(v_modules) as m
        on m.id = l.module_id where l.connection_id = v_pull.connection_id and l.pull_request = v_pull.number;
      perform private.fail('RY409', format('No module is locked to #%s.', v_pull.number),
        'A lock of a member is removed on the module''s page.') where not found;
    when 'link' then
      perform private.audit(p_connection.org_id, 'member.login_linked', 'member', private.caller_id()::pg_catalog.text,
        null, jsonb_build_object('host', split_part(p_connection.repository, '/', 1)));
    else perform private.fail('RY422', format('"%s" is not a command.', left(p_comment ->> 'verb', 50)),
      'Write /runyard plan, apply, confirm, unlock or help.');
  end case;
  return null;
end;
$$;

-- Does a command as the member who wrote it, and notes that, or the reason of a refusal. The victim of a deadlock notes
-- nothing: it is done again.
create function private.try_command(
  p_connection public.git_connections, p_delivery public.git_deliveries, p_comment jsonb, p_command private.git_commands
) returns private.git_commands language plpgsql as $$
declare
  v_hint pg_catalog.text;
begin
  perform private.act_as(case when p_comment ->> 'verb' = 'link'
    then private.prove_login(p_connection, p_delivery.sender, p_comment)
    else private.commander(p_connection, p_delivery.sender, p_comment) end);
  p_command.answer := private.do_command(p_connection, p_delivery.pull_request, p_comment);
  p_command.is_done := true;
  perform private.act_as(null);
  return p_command;
exception
  when deadlock_detected then
    return p_command;
  when others then
    get stacked diagnostics v_hint = pg_exception_hint;
    p_command.answer := case when sqlstate like 'RY%' then left(sqlerrm || ' ' || coalesce(v_hint, ''), 2000)
      else 'The command failed.' end;
    raise log 'command of delivery %: %', p_delivery.id, sqlerrm;
    return p_command;
end;
$$;

-- Does a command as the member who wrote it, and queues its acknowledgement. The reason of a refusal is its answer.
create function private.run_command(
  p_connection public.git_connections, p_delivery public.git_deliveries, p_comment jsonb
) returns public.git_deliveries language plpgsql as $$
declare
  v_command private.git_commands;
begin
  insert into private.git_commands (delivery_id, connection_id, comment_id, pull_request)
  values (p_delivery.id, p_connection.id, (p_comment ->> 'id')::bigint, p_delivery.pull_request)
  on conflict do nothing returning * into v_command;
  if v_command.delivery_id is null then
    update public.git_deliveries set verdict = 'IGNORED', reason = 'The comment was read before.', decided_at = now()
    where id = p_delivery.id returning * into p_delivery;
    return p_delivery;
  end if;
  for v_try in 1..3 loop
    v_command := private.try_command(p_connection, p_delivery, p_comment, v_command);
    exit when v_command.is_done or v_command.answer is not null;
  end loop;
  v_command.answer := coalesce(v_command.answer, case when not v_command.is_done
    then 'Other work on the same modules was in the way. Write the command again.' end);
  update public.git_deliveries set verdict = case when v_command.is_done then 'DONE' else 'REFUSED' end,
    decided_at = now(), reason = coalesce(case when not v_command.is_done then v_command.answer end, format(
      'Done: /runyard %s', concat_ws(' ', p_comment ->> 'verb', nullif(p_comment ->> 'argument', ''))))
  where id = p_delivery.id returning * into p_delivery;
  -- The same answer is written once on a pull request: anybody may comment there.
  update private.git_commands set is_done = v_command.is_done, answer = case when not exists (
      select from private.git_commands as o where o.connection_id = p_connection.id
        and o.pull_request = p_delivery.pull_request and o.answer = v_command.answer) then v_command.answer end
  where delivery_id = p_delivery.id;
  insert into public.deliveries (org_id, rule_id, event, event_id, subject, title)
  select p_connection.org_id, p_connection.id, 'git.report', gen_random_uuid()::pg_catalog.text,
    'command:' || p_delivery.id, 'Answer on #' || p_delivery.pull_request
  where p_connection.has_token and p_connection.provider <> 'generic';
  return p_delivery;
end;
$$;
