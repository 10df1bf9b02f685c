-- name: user_by_email
-- The one password user with an address; addresses are kept in lower case.
select * from auth.users where email = %(email)s and is_sso_user = false and deleted_at is null

-- name: user_by_id
select * from auth.users where id = %(id)s and deleted_at is null

-- name: any_user_by_id
-- One that was deleted softly, too.
select * from auth.users where id = %(id)s

-- name: put_mailed_token
insert into auth.runyard_mailed_tokens (user_id, kind, email, link_hash, code_hash)
values (%(user_id)s, %(kind)s, %(email)s, %(link_hash)s, %(code_hash)s)
on conflict (user_id, kind) do update
set email = excluded.email, link_hash = excluded.link_hash, code_hash = excluded.code_hash, created_at = now()

-- name: take_mailed_token
-- Links and codes live for an hour and serve once: only one of two who come with the same gets a row back.
delete from auth.runyard_mailed_tokens
where (link_hash = %(hash)s or code_hash = %(hash)s) and kind = any(%(kinds)s) and created_at > now() - interval '1 hour'
returning *

-- name: lock_first_account
-- Two who come at once are not both the first.
select pg_advisory_xact_lock(5432154323)

-- name: may_join
-- The first account is the installation's; then anyone who is invited.
select not exists (select from auth.users) or auth.runyard_is_invited(%(email)s) as is_allowed

-- name: identities_of
select * from auth.identities where user_id = any(%(ids)s) order by created_at

-- name: list_users
select * from auth.users where deleted_at is null order by created_at desc, id limit %(limit)s offset %(offset)s

-- name: count_users
select count(*) as total from auth.users where deleted_at is null

-- name: insert_user
insert into auth.users (
  instance_id, id, aud, role, email, encrypted_password, email_confirmed_at, confirmation_token, recovery_token,
  email_change_token_new, email_change, raw_app_meta_data, raw_user_meta_data, banned_until, created_at, updated_at
)
values (
  '00000000-0000-0000-0000-000000000000', %(id)s, 'authenticated', %(role)s, %(email)s, %(password)s,
  case when %(is_confirmed)s then now() end, '', '', '', '', %(app_metadata)s, %(user_metadata)s, %(banned_until)s,
  now(), now()
)
on conflict (email) where is_sso_user = false do nothing
returning *

-- name: insert_identity
insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
values (%(subject)s, %(user_id)s, %(data)s, %(provider)s, now(), now(), now())

-- name: update_identity_email
update auth.identities
set identity_data = identity_data || jsonb_build_object('email', %(email)s::text), updated_at = now()
where user_id = %(id)s and provider = 'email'

-- name: update_user
-- Each value is kept where the caller gives null; metadata is merged key by key, null removing a key.
update auth.users
set
  encrypted_password = coalesce(%(password)s, encrypted_password),
  role = coalesce(%(role)s, role),
  email_confirmed_at = case when %(is_confirmed)s then coalesce(email_confirmed_at, now()) else email_confirmed_at end,
  banned_until = case when %(sets_ban)s then %(banned_until)s::timestamptz else banned_until end,
  raw_user_meta_data = (coalesce(raw_user_meta_data, '{}') || coalesce(%(user_metadata)s::jsonb, '{}'))
    - array(select key from jsonb_each(%(user_metadata)s::jsonb) where value = 'null'),
  raw_app_meta_data = (coalesce(raw_app_meta_data, '{}') || coalesce(%(app_metadata)s::jsonb, '{}'))
    - array(select key from jsonb_each(%(app_metadata)s::jsonb) where value = 'null'),
  updated_at = now()
where id = %(id)s and deleted_at is null
returning *

-- name: delete_user
delete from auth.users where id = %(id)s

-- name: soft_delete_user
-- Personal data goes, the row stays for those who refer to it.
update auth.users
set
  email = null, encrypted_password = null, raw_user_meta_data = '{}', raw_app_meta_data = '{}',
  recovery_token = '', deleted_at = now(), updated_at = now()
where id = %(id)s

-- name: mark_signed_in
update auth.users set last_sign_in_at = now(), updated_at = now() where id = %(id)s returning *

-- name: mark_recovery_sent
update auth.users set recovery_sent_at = now(), updated_at = now() where id = %(id)s returning *

-- name: ask_for_address
update auth.users
set email_change = %(email)s, email_change_sent_at = now(), email_change_confirm_status = 0, updated_at = now()
where id = %(id)s
returning *

-- name: confirm_half
update auth.users set email_change_confirm_status = 1, updated_at = now() where id = %(id)s

-- name: set_address
update auth.users
set
  email = %(email)s, email_change = '', email_change_confirm_status = 0,
  email_confirmed_at = coalesce(email_confirmed_at, now()), updated_at = now()
where id = %(id)s and deleted_at is null
returning *

-- name: confirm_user
update auth.users set email_confirmed_at = coalesce(email_confirmed_at, now()), updated_at = now() where id = %(id)s returning *

-- name: insert_outbox
insert into auth.runyard_outbox (kind, email, content) values (%(kind)s, %(email)s, %(content)s)

-- name: trim_outbox
delete from auth.runyard_outbox where id <= (select max(id) - 200 from auth.runyard_outbox)

-- name: insert_session
insert into auth.sessions (id, user_id, created_at, updated_at, aal, user_agent, ip)
values (%(id)s, %(user_id)s, now(), now(), 'aal1', %(user_agent)s, %(ip)s)

-- name: insert_amr
insert into auth.mfa_amr_claims (session_id, created_at, updated_at, authentication_method)
values (%(session_id)s, now(), now(), %(method)s)
on conflict (session_id, authentication_method) do update set created_at = now(), updated_at = now()

-- name: amr_of
select authentication_method, created_at from auth.mfa_amr_claims where session_id = %(session_id)s order by created_at desc

-- name: session_by_id
select * from auth.sessions where id = %(id)s

-- name: lock_session
-- Refreshes of one session are taken one after the other.
select * from auth.sessions where id = %(id)s for update

-- name: touch_session
update auth.sessions
set refreshed_at = now() at time zone 'utc', updated_at = now(), user_agent = %(user_agent)s, ip = %(ip)s
where id = %(id)s

-- name: insert_refresh_token
insert into auth.refresh_tokens (instance_id, token, user_id, revoked, created_at, updated_at, parent, session_id)
values (
  '00000000-0000-0000-0000-000000000000', %(token)s, %(user_id)s::text, false, now(), now(), %(parent)s, %(session_id)s
)

-- name: refresh_token
select token, user_id, revoked, parent, session_id, updated_at > now() - make_interval(secs => %(reuse_seconds)s) as is_recent
from auth.refresh_tokens
where token = %(token)s

-- name: active_refresh_token
select token, parent from auth.refresh_tokens
where session_id = %(session_id)s and revoked = false
order by id desc
limit 1

-- name: revoke_refresh_token
-- Not again when it is: its reuse interval counts from the first time.
update auth.refresh_tokens set revoked = true, updated_at = now() where token = %(token)s and revoked = false

-- name: revoke_family
update auth.refresh_tokens set revoked = true, updated_at = now() where session_id = %(session_id)s and revoked = false

-- name: end_session
delete from auth.sessions where id = %(session_id)s

-- name: end_all_sessions
delete from auth.sessions where user_id = %(user_id)s

-- name: end_other_sessions
delete from auth.sessions where user_id = %(user_id)s and id <> %(session_id)s

-- name: factors_of
select * from auth.mfa_factors where user_id = any(%(ids)s) order by created_at

-- name: lock_user
-- Two devices that are added at once do not both take the last place.
select id from auth.users where id = %(id)s for update

-- name: factor_by_id
-- Locked: one request at a time checks a code.
select * from auth.mfa_factors where id = %(id)s and user_id = %(user_id)s for update

-- name: insert_factor
insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at, secret)
values (%(id)s, %(user_id)s, %(friendly_name)s, 'totp', 'unverified', now(), now(), %(secret)s)
on conflict do nothing
returning *

-- name: drop_stale_factors
-- Removes factors that were begun and never confirmed.
delete from auth.mfa_factors
where user_id = %(user_id)s and status = 'unverified' and created_at < now() - interval '5 minutes'

-- name: drop_unverified_factors
delete from auth.mfa_factors where user_id = %(user_id)s and status = 'unverified'

-- name: verify_factor
update auth.mfa_factors set status = 'verified', updated_at = now() where id = %(id)s and status = 'unverified'

-- name: delete_factor
delete from auth.mfa_factors where id = %(id)s

-- name: insert_challenge
insert into auth.mfa_challenges (id, factor_id, created_at, ip_address)
values (%(id)s, %(factor_id)s, now(), coalesce(%(ip)s::inet, '0.0.0.0'))
returning *

-- name: drop_old_challenges
delete from auth.mfa_challenges where factor_id = %(factor_id)s and created_at < now() - interval '1 hour'

-- name: challenge_by_id
select *, created_at > now() - make_interval(secs => %(seconds)s) as is_live
from auth.mfa_challenges where id = %(id)s and factor_id = %(factor_id)s for update

-- name: mark_challenge_verified
update auth.mfa_challenges set verified_at = now() where id = %(id)s

-- name: use_step
-- Returns a row only for a newer step than any before.
insert into auth.runyard_totp_steps as s (factor_id, step) values (%(factor_id)s, %(step)s)
on conflict (factor_id) do update set step = excluded.step where s.step < excluded.step
returning step

-- name: raise_session
update auth.sessions set aal = 'aal2', factor_id = %(factor_id)s, updated_at = now() where id = %(session_id)s

-- name: end_lower_sessions
delete from auth.sessions where user_id = %(user_id)s and coalesce(aal, 'aal1') < 'aal2'

-- name: forget_factor_method
delete from auth.mfa_amr_claims as c using auth.sessions as s
where s.id = c.session_id and s.factor_id = %(factor_id)s and c.authentication_method = 'totp'

-- name: lower_sessions
update auth.sessions set aal = 'aal1', factor_id = null, updated_at = now() where factor_id = %(factor_id)s

-- name: organization_of
select auth.runyard_organization_of(%(user_id)s) as organization

-- name: provider_by_identifier
select * from auth.custom_oauth_providers where identifier = %(identifier)s

-- name: list_providers
select * from auth.custom_oauth_providers order by created_at

-- name: insert_provider
insert into auth.custom_oauth_providers (
  id, provider_type, identifier, name, client_id, client_secret, acceptable_client_ids, scopes, pkce_enabled,
  attribute_mapping, authorization_params, enabled, email_optional, issuer, discovery_url, skip_nonce_check,
  custom_claims_allowlist
)
values (
  %(id)s, 'oidc', %(identifier)s, %(name)s, %(client_id)s, %(client_secret)s, %(acceptable_client_ids)s, %(scopes)s,
  %(pkce_enabled)s, %(attribute_mapping)s, %(authorization_params)s, %(enabled)s, %(email_optional)s, %(issuer)s,
  %(discovery_url)s, %(skip_nonce_check)s, %(custom_claims_allowlist)s
)
on conflict (identifier) do nothing
returning *

-- name: update_provider
update auth.custom_oauth_providers
set
  name = %(name)s, client_id = %(client_id)s, client_secret = %(client_secret)s,
  acceptable_client_ids = %(acceptable_client_ids)s, scopes = %(scopes)s, pkce_enabled = %(pkce_enabled)s,
  attribute_mapping = %(attribute_mapping)s, authorization_params = %(authorization_params)s, enabled = %(enabled)s,
  email_optional = %(email_optional)s, issuer = %(issuer)s, discovery_url = %(discovery_url)s,
  skip_nonce_check = %(skip_nonce_check)s, custom_claims_allowlist = %(custom_claims_allowlist)s, updated_at = now()
where identifier = %(identifier)s
returning *

-- name: delete_provider
delete from auth.custom_oauth_providers where identifier = %(identifier)s

-- name: drop_old_flows
delete from auth.runyard_provider_flows where created_at < now() - interval '10 minutes'

-- name: insert_flow
insert into auth.runyard_provider_flows (hash, provider, redirect_to, code_challenge, user_id, refresh_token)
values (%(hash)s, %(provider)s, %(redirect_to)s, %(code_challenge)s, %(user_id)s, %(refresh_token)s)

-- name: take_flow
-- Only one of two who come with the same gets a row back.
delete from auth.runyard_provider_flows
where hash = %(hash)s and (user_id is not null) = %(is_done)s
returning *, created_at > now() - interval '10 minutes' as is_live

-- name: identity_at
select * from auth.identities where provider = %(provider)s and provider_id = %(subject)s

-- name: renew_identity
update auth.identities set identity_data = %(data)s, last_sign_in_at = now(), updated_at = now()
where provider = %(provider)s and provider_id = %(subject)s

-- name: note_providers
-- As GoTrue does: the identities of a user, by name.
update auth.users as u
set
  raw_app_meta_data = coalesce(u.raw_app_meta_data, '{}') || jsonb_build_object('providers', (
    select jsonb_agg(i.provider order by i.created_at) from auth.identities as i where i.user_id = u.id)),
  updated_at = now()
where u.id = %(id)s
returning *

-- name: keep_provider_session
insert into auth.runyard_provider_sessions (session_id, provider, refresh_token)
values (%(session_id)s, %(provider)s, %(refresh_token)s)

-- name: provider_session_of
-- The provider's session behind one of our refresh tokens, unless its claims were read a moment ago.
select s.*, z.user_id from auth.refresh_tokens as t
join auth.runyard_provider_sessions as s on s.session_id = t.session_id
join auth.sessions as z on z.id = s.session_id
where t.token = %(token)s and s.read_at < now() - interval '30 seconds'

-- name: due_provider_sessions
select s.*, z.user_id from auth.runyard_provider_sessions as s join auth.sessions as z on z.id = s.session_id
where s.read_at < now() - make_interval(secs => %(seconds)s) order by s.read_at limit 50

-- name: renew_provider_session
update auth.runyard_provider_sessions set refresh_token = %(refresh_token)s, read_at = now()
where session_id = %(session_id)s

-- name: forget_provider_sign_in
-- Rights that came with a claim count from the last time that the provider confirmed it.
update auth.identities as i set last_sign_in_at = null, updated_at = now()
from auth.sessions as s where s.id = %(session_id)s and i.user_id = s.user_id and i.provider = %(provider)s

-- name: provider_session
select * from auth.runyard_provider_sessions where session_id = %(session_id)s

-- name: is_organization_provider
select auth.runyard_is_organization_provider(%(identifier)s) as is_own
