"""Every public call of people against a model: somebody with any role, roles at paths, a team and a token with limits may do it
exactly where they have the verbs that it needs."""

import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.db.call_rights import NEEDS
from tests.db.test_permissions import FOR_EVERYBODY, Site, attempt, build, functions
from tests.db.world import Caller, World, sha256
from tests.support.database import Database
from tests.support.extent import is_all

PATHS = ["", "a", "a/b", "a/c", "a/d", "empty", "z", "a/bc"]
BUILT_IN = ["viewer", "planner", "approver", "operator", "admin"]


@dataclass(frozen=True)
class Bound:
    """A role at a path, of the person or of their team; the role "own" has the verbs that were drawn."""

    role: str
    path: str
    is_team: bool


BOUND = st.builds(Bound, st.sampled_from([*BUILT_IN, "own"]), st.sampled_from(PATHS), st.booleans())
LIMIT = st.none() | st.tuples(st.sampled_from(BUILT_IN), st.sampled_from(PATHS))


@pytest.fixture(scope="module")
def site(postgres_server: Any, module_database: str) -> Any:
    database = Database(postgres_server, module_database)
    yield build(World.open(database))
    database.close()


@pytest.fixture(scope="module")
def roles(site: Site) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for role, verb in site.world.owner.rows("select role, verb from private.role_verbs"):
        found.setdefault(role, set()).add(verb)
    return found


@pytest.fixture(scope="module")
def by_owner(site: Site) -> dict[str, str]:
    """Return what the owner is answered: nothing of it is about rights."""
    asked = functions(site.world)
    return {name: attempt(site.org.owner, site, name, asked[name]["needs"]) for name in every_call()}


def every_call() -> dict[str, str]:
    """The calls with what each of them needs."""
    return {name: needs for needs, names in NEEDS.items() for name in names.split()}


def is_covered(path: str, above: str) -> bool:
    return above in ("", path) or path.startswith(f"{above}/")


@dataclass
class Model:
    """A person and their rights, by the rules of docs/access.md."""

    roles: dict[str, set[str]]
    base: str
    bound: list[Bound]
    limit: tuple[str, str] | None

    def has(self, verb: str, path: str) -> bool:
        here = [self.base, *(each.role for each in self.bound if is_covered(path, each.path))]
        return any(verb in self.roles[role] for role in here)

    def is_within_limit(self, verb: str, path: str) -> bool:
        if self.limit is None or verb in self.roles["viewer"]:
            return True
        role, top = self.limit
        return verb in self.roles[role] and is_covered(path, top)

    def may(self, needs: str) -> bool:
        if needs == "person@":
            return self.limit is None
        for need in needs.split():
            what, path = need.split("@")
            for verb in self.roles.get(what, {what}):
                # A right anywhere is required before the modules are known, and a right at each of them afterwards.
                is_there = path == "*" and any(self.has(verb, at) for at in PATHS)
                if not is_there and not (self.has(verb, path) and self.is_within_limit(verb, path)):
                    return False
        return True


def person(site: Site, model: Model) -> Caller:
    """Somebody of this model, with a token if it has a limit."""
    who, sql = site.world.user(), site.world.owner
    sql.connection.execute(
        "insert into public.memberships (org_id, user_id, email, role) values (%s, %s, %s, %s)",
        [site.org.id, who.id, who.email, model.base],
    )
    name = f"own-{who.id[:8]}"
    add = "insert into public.{} values ({}) returning {}"
    sql.one(add.format("roles (org_id, name, verbs)", "%s, %s, %s", "1"), site.org.id, name, list(model.roles["own"]))
    team = sql.one(add.format("teams (org_id, name)", "%s, %s", "id"), site.org.id, name)
    sql.one(add.format("team_members (team_id, org_id, user_id)", "%s, %s, %s", "1"), team, site.org.id, who.id)
    for each in set(model.bound):
        subject = (None, team) if each.is_team else (who.id, None)
        role = name if each.role == "own" else each.role
        columns = "role_bindings (org_id, path, role, user_id, team_id)"
        sql.one(add.format(columns, "%s, %s, %s, %s, %s", "1"), site.org.id, each.path, role, *subject)
    if model.limit is None:
        return who
    token = site.world.owner.one(
        "insert into private.personal_tokens (user_id, name, token_hash, hint, expires_at, role, path)"
        " values (%s, 'x', %s, 'abcd', now() + interval '1 day', %s, %s) returning id",
        who.id, sha256(uuid.uuid4().hex), *model.limit,
    )  # fmt: skip
    return site.world.caller("authenticated", sub=who.id, email=who.email, personal_token=str(token))


def test_what_every_call_needs_is_written_down(site: Site) -> None:
    people = {name for name, about in functions(site.world).items() if about["roles"] == ["authenticated"]}
    assert people - FOR_EVERYBODY == set(every_call())


# An example makes all calls, so a smaller one is not looked for: the message names the call.
@settings(max_examples=100 if is_all() else 12, phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_every_call_is_answered_as_the_model_says(
    site: Site, roles: dict[str, set[str]], by_owner: dict[str, str], data: st.DataObject
) -> None:
    given_verbs = sorted(roles["admin"])
    own = set(data.draw(st.lists(st.sampled_from(given_verbs), min_size=1, max_size=8), label="own"))
    model = Model(
        roles | {"own": own | roles["viewer"]},
        data.draw(st.sampled_from(["guest", "viewer", "operator"]), label="base"),
        data.draw(st.lists(BOUND, max_size=4), label="bound"),
        data.draw(LIMIT, label="limit"),
    )
    caller, asked, wrong = person(site, model), functions(site.world), []
    for name, needs in every_call().items():
        if not needs and model.base == "guest":
            continue  # what a guest is shown there: test_reading
        got = attempt(caller, site, name, asked[name]["needs"])
        # To a guest, what they do not see is missing.
        expected = {by_owner[name]} if model.may(needs) else {"RY403"} | ({"RY404"} if model.base == "guest" else set())
        if got not in expected:
            wrong.append((name, needs, got, expected))
    caller.connection.close()
    assert wrong == []
