"""Reference pages that are read off the database itself: `python -m scripts.database_pages DATABASE_URL` writes them."""

import json
import sys
from pathlib import Path
from typing import Any

import psycopg

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
GENERATED = "<!-- Written by `python -m scripts.database_pages`; a test compares it with the database. -->"
CLIENTS = ("anon", "authenticated", "worker", "executor", "engine", "service_role")

STATUSES = """# Job statuses

{generated}

A job has exactly one status. Only the changes listed here exist: the database refuses every other one, no matter who asks.
Each is a row in `job_events`, with its cause: a person, a runner or the sweep, and the reason.

| status | meaning |
|---|---|
{statuses}

## Every change that is allowed

| from | to | event | when |
|---|---|---|---|
{transitions}

`SUCCEEDED`, `FAILED` and `CANCELLED` are final. A result that comes after a job was cancelled is kept as a late report and changes nothing.
"""

PERMISSIONS = """# Permissions

{generated}

`anon` is a visitor who is not signed in, `authenticated` a person, `worker` a runner, `executor` a process that a runner started for one
job, `engine` what that job runs, `service_role` the edge functions. Tables are read under row-level security, so a person sees only the
organisations that they belong to; nothing is written except through the functions, which check what the caller may do at the path.

Each role may do its own row and those above it. Calls, policies and lists all ask the view `private.verbs`. Two more roles are given at a
path only: `planner` (a viewer with `job.plan`) and `approver` (a viewer with `job.approve`). [Rights at a path](../access.md)

| role in the organisation | may |
|---|---|
{roles}

## Tables that may be read

| table | who | what it is |
|---|---|---|
{tables}

## Functions that may be called

| function | who | what it does |
|---|---|---|
{functions}
"""


def status_page(connection: psycopg.Connection[Any]) -> str:
    """Describe the states and the changes between them."""
    statuses = connection.execute(
        "select e.enumlabel from pg_enum as e where e.enumtypid = 'public.job_status'::regtype order by e.enumsortorder"
    ).fetchall()
    changes = connection.execute(
        "select from_status::text, to_status::text, event, description from private.job_transitions"
        " order by from_status, to_status, event"
    ).fetchall()
    words = "\n".join(f"| {name} | {MEANINGS[name]} |" for (name,) in statuses)
    rows = "\n".join(f"| {a} | {b} | `{event}` | {when} |" for a, b, event, when in changes)
    return STATUSES.format(generated=GENERATED, statuses=words, transitions=rows)


MEANINGS = {
    "AWAITING_APPROVAL": "people must agree first",
    "QUEUED": "waits for a runner; *why waiting* shows which",
    "CLAIMED": "a runner has it and is about to begin",
    "PROCESSING": "a runner is at work",
    "SUCCEEDED": "done",
    "FAILED": "did not work; the error says why and what to do",
    "CANCELLED": "stopped because somebody asked for it",
    "NEEDS_ATTENTION": "its runner was lost while it was changing infrastructure; a person decides",
}


def permission_page(connection: psycopg.Connection[Any]) -> str:
    """Describe who may read which table and call which function."""
    tables = connection.execute(TABLES, [list(CLIENTS)]).fetchall()
    functions = connection.execute(FUNCTIONS, [list(CLIENTS)]).fetchall()
    roles = connection.execute(ROLES).fetchall()
    return PERMISSIONS.format(
        generated=GENERATED,
        roles="\n".join(f"| {role} | {verbs} |" for role, verbs in roles),
        tables="\n".join(f"| `{name}` | {who} | {what} |" for name, who, what in tables),
        functions="\n".join(f"| `{name}` | {who} | {what} |" for name, who, what in functions),
    )


ROLES = """
select v.least_role::text, string_agg(format('`%s`', v.verb), ', ' order by v.verb)
from private.verbs as v group by v.least_role order by v.least_role desc
"""
TABLES = """
select c.relname, string_agg(r.role, ', ' order by r.n), replace(coalesce(obj_description(c.oid), ''), '|', '\\|')
from pg_class as c
cross join unnest(%s::text[]) with ordinality as r (role, n)
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
  and has_table_privilege(r.role, c.oid, 'select')
group by c.oid, c.relname order by c.relname
"""
FUNCTIONS = """
select p.proname, string_agg(r.role, ', ' order by r.n), replace(coalesce(obj_description(p.oid), ''), '|', '\\|')
from pg_proc as p
cross join unnest(%s::text[]) with ordinality as r (role, n)
where p.pronamespace = 'public'::regnamespace and has_function_privilege(r.role, p.oid, 'execute')
group by p.oid, p.proname order by p.proname
"""


def manifest_schema(connection: psycopg.Connection[Any]) -> str:
    """Describe the manifest to editors, as JSON Schema."""
    kinds: dict[str, dict[str, Any]] = {}
    for kind, field, schema, words, is_required in connection.execute(FIELDS).fetchall():
        entry = kinds.setdefault(kind, {"properties": {}, "required": []})
        entry["properties"][field] = {"description": words, **schema}
        entry["required"] += [field] if is_required else []
    lists = {
        kind: {"type": "array", "items": {"type": "object", "additionalProperties": False, **entry}}
        for kind, entry in kinds.items()
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "runyard.yaml",
        "type": "object",
        "properties": {"version": {"const": 1}, **lists},
        "required": ["version"],
        "additionalProperties": False,
    }
    return json.dumps(schema, indent=1) + "\n"


FIELDS = """
select f.kind, f.field, (t.schema || case when f.fallback = 'null' then jsonb_build_object('type',
    jsonb_build_array(t.schema -> 'type', 'null')) when f.fallback is not null then jsonb_build_object('default',
    f.fallback) else '{}' end), f.words, f.fallback is null
from private.manifest_fields as f join (values
  ('text', '{"type": "string"}'::jsonb), ('boolean', '{"type": "boolean"}'), ('integer', '{"type": "integer"}'),
  ('object', '{"type": "object"}'), ('list', '{"type": "array"}'), ('any', '{}'),
  ('set', '{"type": "array", "items": {"type": "string"}}')) as t (type, schema) on t.type = f.type
order by f.place
"""
PAGES = {
    "statuses.md": status_page,
    "permissions.md": permission_page,
    "manifest.schema.json": manifest_schema,
}


def write(database_url: str) -> None:
    """Write every page."""
    with psycopg.connect(database_url) as connection:
        for name, make in PAGES.items():
            (FOLDER / name).write_text(make(connection))


if __name__ == "__main__":
    write(sys.argv[1])
