"""Every public function has a command, or a reason to have none."""

import psycopg

from scripts.command_page import REASONS, entries

CALLABLE = """
select distinct p.proname from pg_proc as p
cross join unnest(array['authenticated', 'service_role', 'worker', 'executor', 'engine', 'anon']) as r (role)
where p.pronamespace = 'public'::regnamespace and has_function_privilege(r.role, p.oid, 'execute')
  and not exists (select from pg_depend as d where d.objid = p.oid and d.deptype = 'e')
"""


def test_every_public_function_has_a_command_or_a_reason(db_url: str) -> None:
    with psycopg.connect(db_url) as connection:
        public = {name for (name,) in connection.execute(CALLABLE).fetchall()}
    called = {name for entry in entries() for name in entry.calls}
    assert public - called - set(REASONS) == set(), (
        "give it a command in cli/commands, or a reason in scripts/command_page.py"
    )
    assert called - public == set(), "a command declares what the database does not have"
    assert set(REASONS) - public == set(), "a reason is left over"
    assert called & set(REASONS) == set(), "a function has both"
