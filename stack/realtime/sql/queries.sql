-- name: published_tables
-- The tables whose changes are sent.
select p.schemaname::text, p.tablename::text, c.oid::bigint
from pg_publication_tables p
join pg_namespace n on n.nspname = p.schemaname
join pg_class c on c.relname = p.tablename and c.relnamespace = n.oid
where p.pubname = 'supabase_realtime'
order by 1, 2

-- name: table_columns
-- A domain is read as its base type; an array by its elements.
select
  a.attname as name,
  t.typname as type_name,
  b.typname as base_type,
  e.typname as element_type,
  format_type(coalesce(nullif(t.typbasetype, 0), t.oid), null) as sql_type,
  b.typtype = 'e' as is_enum,
  coalesce(a.attnum = any(i.indkey), false) as is_key
from pg_attribute a
join pg_type t on t.oid = a.atttypid
join pg_type b on b.oid = coalesce(nullif(t.typbasetype, 0), t.oid)
left join pg_type e on e.oid = b.typelem and b.typcategory = 'A'
left join pg_index i on i.indrelid = a.attrelid and i.indisprimary
where a.attrelid = %(table)s and a.attnum > 0 and not a.attisdropped
order by a.attnum

-- name: table_has_rls
select relrowsecurity from pg_class where oid = %(table)s

-- name: role_view
-- The columns and rows of a table that a role may read.
select
  r.rolbypassrls or r.rolsuper as bypasses_rls,
  array(
    select a.attname::text
    from pg_attribute a
    where a.attrelid = %(table)s and a.attnum > 0 and not a.attisdropped
      and has_column_privilege(r.oid, a.attrelid, a.attnum, 'select')
  ) as columns
from pg_roles r
where r.rolname = %(role)s

-- name: visible_rows
-- Always a row at least: the snapshot shows whether the answer is reliable.
select snapshot, viewer, key
from (select pg_current_snapshot()::text as snapshot) now
left join lateral _realtime.visible_rows(%(plan_name)s, %(query)s, %(keys)s, %(roles)s, %(claims)s) on true

-- name: snapshot
select pg_current_snapshot()::text

-- name: api_roles
-- The roles that this login may become.
select r.rolname::text
from pg_auth_members m
join pg_roles r on r.oid = m.roleid
join pg_roles me on me.oid = m.member
where me.rolname = current_user

-- name: may_read
select _realtime.may_read(%(topic)s, %(role)s, %(claims)s, %(sub)s, %(headers)s)

-- name: ended_sessions
select id from unnest(%(ids)s::uuid[]) as id where not _realtime.has_session(id)

-- name: maintain_messages
select _realtime.maintain_messages()
