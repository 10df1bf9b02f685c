-- Settings that `alter role … set` gave to the roles requests may run as: they are applied at login,
-- and set role is none, so each request repeats them. Only those that any user may set.
select r.rolname, split_part(s.setting, '=', 1) as name, substr(s.setting, strpos(s.setting, '=') + 1) as value
from pg_db_role_setting d
join pg_roles r on r.oid = d.setrole
cross join unnest(d.setconfig) as s (setting)
join pg_settings g on g.name = split_part(s.setting, '=', 1) and g.context = 'user'
where d.setdatabase in (0, (select oid from pg_database where datname = current_database()))
  and r.rolname <> current_user
order by d.setdatabase
