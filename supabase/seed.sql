-- Seed: what a new project shows before its first pipeline has run. Applied once by `make up` and by `supabase db reset`.
insert into public.worker_releases (version, channel, notes)
values ('0.1.0', 'stable', E'# 0.1.0\n\nThe first release of the runner: sessions, leases, plans, applies, logs, state.')
on conflict (version) do nothing;
