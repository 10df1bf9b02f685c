"""Every act of a person is in the audit log; the acts come from the catalogue, so a new one without an entry fails."""

import re
from collections.abc import Iterator

import psycopg
import pytest

from tests.db.test_permissions import Site, arguments_of, build, functions
from tests.db.world import World
from tests.support.database import Database, Server

# They leave another record (a comment, an upload's job), prepare an act that is audited (an app, a linked login), or concern
# the caller's account alone.
NOT_AUDITED = {
    "comment_on_job", "start_upload", "upload_source", "start_git_app", "request_git_link", "decide_device_login",
    "create_personal_token", "revoke_personal_token", "set_recovery_codes", "use_recovery_code",
    "open_organization", "allow_sign_in_link",
}  # fmt: skip
# They only read, although they are not declared stable.
READS = {"device_login", "explain_queue", "job_page"}
COUNT = "select count(*) from public.audit_events"


@pytest.fixture(scope="module")
def site(postgres_server: Server, module_database: str) -> Iterator[Site]:
    database = Database(postgres_server, module_database)
    yield build(World.open(database))
    database.close()


def test_every_act_of_a_person_is_audited(site: Site) -> None:
    about = functions(site.world)
    volatile = "select proname from pg_proc where pronamespace = 'public'::regnamespace and provolatile = 'v'"
    acts = [name for name in site.world.owner.rows(volatile) if about[name]["roles"] == ["authenticated"]]
    assert len(acts) > 80
    silent = {name for name in acts if not is_audited(site, name, about[name]["needs"])}
    assert silent == NOT_AUDITED | READS


def is_audited(site: Site, function: str, needs: list[str]) -> bool:
    """Whether the call adds an entry; of one that is refused here, whether its body leads to one."""
    owner = site.callers["owner"]
    try:
        with owner.connection.transaction(force_rollback=True):
            before = owner.one(COUNT)
            owner.call(function, **arguments_of(site, function, needs))
            return bool(owner.one(COUNT) > before)
    except psycopg.Error:
        return "private.audit(" in bodies_from(site, function)


def bodies_from(site: Site, function: str) -> str:
    """The body of a function, and those of all that it leads to."""
    query = "select proname, prosrc from pg_proc where pronamespace = 'private'::regnamespace"
    bodies: dict[str, str] = dict(site.world.owner.rows(query))
    found, left = set[str](), {function}
    while left:
        found |= left
        left = {name for each in left for name in re.findall(r"private\.(\w+)\(", bodies.get(each, ""))} - found
    return "\n".join(bodies.get(name, "") for name in found)
