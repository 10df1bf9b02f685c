"""Variables: the value that wins, the roles that may set them, the parts that a job keeps, and places where no value may be."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused, this
from tests.support.extent import sampled

MODULE = "a/b/c"
LEVELS = ["", "a", "a/b", MODULE]
PLANTED = "planted-7f3c9e"


@pytest.fixture
def org(world: World) -> Organization:
    made = world.organization()
    made.module(MODULE)
    return made


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("holder", is_assigned_to_all_modules=True, capacity=5)


def put(org: Organization, path: str, name: str, value: Any, kind: str = "input", **more: Any) -> dict[str, Any]:
    variables = [{"kind": kind, "name": name, "value": value, **more}]
    (made,) = org.owner.call("set_variables", p_org=org.id, p_path=path, p_variables=variables)
    answer: dict[str, Any] = made
    return answer


def effective(org: Organization, path: str = MODULE) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = org.owner.call("preview_variables", p_org=org.id, p_path=path)
    return shown


def fetched(runner: Runner, job: dict[str, Any]) -> dict[str, Any]:
    answer = runner.call("worker_variables", **this(job))
    return {each["name"]: each["value"] for each in answer["variables"]}


def ranking(levels: Iterable[tuple[str, bool]], is_in_run: bool) -> list[str]:
    """The rule, one clause after the other: where a key is set, the first place counts."""
    enforced = sorted((path for path, is_enforced in levels if is_enforced), key=len)
    plain = sorted((path for path, is_enforced in levels if not is_enforced), key=len, reverse=True)
    run = ["run"] if is_in_run else []
    own = [path for path in plain if path == MODULE]
    return [*enforced, *run, *own, *(path for path in plain if path != MODULE)]


@pytest.mark.parametrize("seed", sampled(range(40), 8))
def test_the_value_that_wins_is_the_one_that_the_rule_names(org: Organization, runner: Runner, seed: int) -> None:
    dice = random.Random(seed)
    keys = [("input", "size"), ("input", "zone"), ("env", "size"), ("file", "ca.pem")]
    places: dict[tuple[str, str], list[tuple[str, bool]]] = {key: [] for key in keys}
    for path, (kind, name) in dice.sample([(path, key) for path in [*LEVELS, "other"] for key in keys], 14):
        is_enforced = dice.random() < 0.3
        if path == "other":
            org.group("other")
        else:
            places[kind, name].append((path, is_enforced))
        put(org, path, name, f"{kind} {name} of {path}", kind, is_enforced=is_enforced)
    in_run = dice.sample(["size", "zone"], dice.randint(0, 2))
    org.enqueue(MODULE, variables={name: f"input {name} of run" for name in in_run})
    job = runner.claim_one()
    ranked = {key: ranking(levels, key[0] == "input" and key[1] in in_run) for key, levels in places.items()}

    answer = runner.call("worker_variables", **this(job))["variables"]
    expected = {(kind, name): f"{kind} {name} of {order[0]}" for (kind, name), order in ranked.items() if order}
    assert {(each["kind"], each["name"]): each["value"] for each in answer} == expected

    shown = {
        (each["kind"], each["name"]): [each["path"], *(low["path"] for low in each["hides"])] for each in effective(org)
    }
    without_run = {key: [path for path in order if path != "run"] for key, order in ranked.items()}
    assert shown == {key: order for key, order in without_run.items() if order}


def test_a_key_has_one_value_at_a_path_and_counts_its_versions(org: Organization) -> None:
    assert put(org, MODULE, "size", 1)["version"] == 1
    assert put(org, MODULE, "size", 1)["version"] == 1, "the same value makes no new version"
    assert put(org, MODULE, "size", 2)["version"] == 2
    org.owner.call("remove_variable", p_variable=effective(org)[0]["id"])
    assert effective(org) == []
    assert put(org, MODULE, "size", 3)["version"] == 3, "the versions of a removed key continue"
    twice = [{"kind": "input", "name": "size", "value": value} for value in (4, 5)]
    with refused("RY422", '"size" is in the list twice.'):
        org.owner.call("set_variables", p_org=org.id, p_path=MODULE, p_variables=twice)
    assert effective(org)[0]["value"] == 3


def test_a_null_and_a_text_are_values(org: Organization, runner: Runner) -> None:
    put(org, MODULE, "nothing", None)
    put(org, MODULE, "words", "")
    put(org, MODULE, "expression", 'upper("x")', is_hcl=True)
    org.enqueue(MODULE)
    assert fetched(runner, runner.claim_one()) == {"nothing": None, "words": "", "expression": 'upper("x")'}


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ({"kind": "input", "name": "a b", "value": 1}, "is not a valid input variable."),
        ({"kind": "env", "name": "a-b", "value": "x"}, "is not a valid env variable."),
        ({"kind": "file", "name": "../x", "value": "x"}, "is not a valid file variable."),
        ({"kind": "file", "name": "/etc/x", "value": "x"}, "is not a valid file variable."),
        ({"kind": "file", "name": ".terraform/x", "value": "x"}, "The runner writes"),
        ({"kind": "file", "name": "~runyard.auto.tfvars.json", "value": "x"}, "The runner writes"),
        ({"kind": "secret", "name": "a", "value": "x"}, "is not a valid secret variable."),
        ({"kind": "env", "name": "A", "value": 1}, "must be a text."),
        ({"kind": "input", "name": "a", "value": 1, "is_hcl": True}, "must be a text."),
        ({"kind": "env", "name": "A", "value": "x", "is_hcl": True}, "must be a text."),
        ({"kind": "env", "name": "A", "value": "x" * 65536}, "is not a valid env variable."),
        ({"kind": "input", "name": "a"}, "A variable has a kind, a name and a value."),
        (
            {"kind": "input", "name": "a", "value": 1, "is_enforced": "perhaps"},
            "A field of a variable has the wrong type.",
        ),
        ({"kind": "input", "name": "a", "value": 1, "colour": 1}, "Unknown option: colour."),
    ],
)
def test_invalid_variables_are_refused(org: Organization, variable: dict[str, Any], words: str) -> None:
    with refused("RY422", words):
        org.owner.call("set_variables", p_org=org.id, p_path=MODULE, p_variables=[variable])


def test_invalid_lists_of_variables_and_unknown_paths_are_refused(org: Organization) -> None:
    for wrong in ([], {}, [{"kind": "input", "name": f"a{n}", "value": n} for n in range(1001)]):
        with refused("RY422", "Send a list of 1 to 1,000 variables."):
            org.owner.call("set_variables", p_org=org.id, p_path=MODULE, p_variables=wrong)
    with refused("RY404", 'There is no module or group "nowhere".'):
        put(org, "nowhere", "size", 1)
    with refused("RY404", "There is no such variable."):
        org.owner.call("remove_variable", p_variable=1 << 40)


@pytest.mark.parametrize(
    ("role", "path", "is_enforced", "may"),
    [
        ("viewer", MODULE, False, False), ("operator", MODULE, False, True), ("operator", "a", False, True),
        ("operator", "", False, False), ("operator", MODULE, True, False), ("admin", "", True, True),
    ],
)  # fmt: skip
def test_setting_and_removing_variables_depends_on_role_path_and_enforcement(
    org: Organization, role: str, path: str, is_enforced: bool, may: bool
) -> None:
    member = org.member(role)
    variables = [{"kind": "input", "name": "size", "value": 1, "is_enforced": is_enforced}]
    if may:
        (made,) = member.call("set_variables", p_org=org.id, p_path=path, p_variables=variables)
        member.call("remove_variable", p_variable=made["id"])
        return
    with refused("RY403"):
        member.call("set_variables", p_org=org.id, p_path=path, p_variables=variables)
    made = put(org, path, "size", 1, is_enforced=is_enforced)
    with refused("RY403"):
        member.call("remove_variable", p_variable=made["id"])


def test_an_operator_cannot_override_an_enforced_variable(org: Organization) -> None:
    put(org, MODULE, "size", 1, is_enforced=True)
    with refused("RY403"):
        org.member("operator").call("update_module", p_module=org.modules[MODULE], p_spec={"inputs": {"size": 2}})


def test_members_read_and_strangers_see_nothing(org: Organization, other_org: Organization, runner: Runner) -> None:
    made = put(org, MODULE, "size", 1)
    job = org.enqueue(MODULE)
    viewer = org.member("viewer")
    assert [each["value"] for each in viewer.call("preview_variables", p_org=org.id, p_path=MODULE)] == [1]
    stranger = other_org.owner
    assert stranger.rows("select from public.variables where id = %s", made["id"]) == []
    with refused("RY404"):
        stranger.call("preview_variables", p_org=org.id, p_path=MODULE)
    with refused("RY404"):
        stranger.call("list_job_variables", p_job=job)
    with refused("RY404"):
        stranger.call("remove_variable", p_variable=made["id"])


def test_a_job_keeps_names_and_versions_and_later_values_concern_later_jobs(org: Organization, runner: Runner) -> None:
    put(org, "", "region", "eu")
    put(org, MODULE, "size", 1)
    put(org, MODULE, "size", 2)
    first = org.enqueue(MODULE, variables={"count": 3})
    put(org, MODULE, "size", 3)
    org.owner.call("remove_variable", p_variable=effective(org)[0]["id"])
    kept = org.owner.call("list_job_variables", p_job=first)
    assert [(each["name"], each["path"], each["version"], each["is_current"]) for each in kept] == [
        ("count", None, 1, False),
        ("region", "", 1, False),
        ("size", MODULE, 2, False),
    ]
    assert all("value" not in each for each in kept)
    assert fetched(runner, runner.claim_one()) == {"count": 3, "region": "eu", "size": 2}


def test_only_the_attempt_that_holds_the_lease_gets_values(world: World, org: Organization, runner: Runner) -> None:
    put(org, MODULE, "size", 1)
    org.enqueue(MODULE)
    job = runner.claim_one()
    other = org.runner("other", is_assigned_to_all_modules=True)
    with refused("RY410"):
        other.call("worker_variables", **this(job))
    world.lose(runner)
    with refused("RY410"):
        fetched(runner, job)


def test_a_module_of_the_same_path_does_not_inherit(org: Organization) -> None:
    put(org, MODULE, "size", 1)
    put(org, "a/b", "zone", "x")
    org.owner.call("delete_module", p_module=org.modules[MODULE], p_confirm_name="c")
    org.owner.call("delete_group", p_group=org.owner.one("select id from public.groups where path = 'a/b'"))
    org.module(MODULE)
    assert effective(org) == []


def test_replaced_values_expire_and_names_stay(world: World, org: Organization, runner: Runner) -> None:
    put(org, MODULE, "size", PLANTED)
    job = org.enqueue(MODULE)
    put(org, MODULE, "size", 2)
    world.owner.connection.execute(
        "update public.variables set ended_at = ended_at - interval '31 days' where org_id = %s", [org.id]
    )
    world.owner.connection.execute("select private.remove_old_rows('old_values')")
    assert world.owner.rows("select value from public.variables where org_id = %s order by version", org.id) == [
        None,
        2,
    ]
    assert [each["name"] for each in org.owner.call("list_job_variables", p_job=job)] == ["size"]
    with refused("RY409", 'Version 1 of the variable "size" has expired.'):
        fetched(runner, runner.claim_one())


def test_a_value_that_looks_like_a_secret_is_warned_about(org: Organization) -> None:
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    assert put(org, MODULE, "who", key)["warning"] == "The value looks like a key or token."
    assert put(org, MODULE, "nested", {"list": [key]})["warning"] == "The value looks like a key or token."
    assert put(org, MODULE, "db_password", "x")["warning"] == "The name suggests a secret."
    assert put(org, MODULE, "region", "eu-west-1")["warning"] is None
    assert [each["name"] for each in effective(org) if each["warning"]] == ["db_password", "nested", "who"]


def test_values_are_in_no_other_table(world: World, org: Organization, runner: Runner) -> None:
    module = org.module("a/d", inputs={"made": f"{PLANTED}-0"}, env={"MADE": f"{PLANTED}-1"}, auto_apply=True)
    org.group("a", p_env={"GROUP": f"{PLANTED}-2"})
    put(org, "", "org", f"{PLANTED}-3")
    put(org, "a/d", "x.pem", f"{PLANTED}-4", "file")
    org.owner.call("update_module", p_module=module, p_spec={"inputs": {"made": f"{PLANTED}-5"}})
    org.enqueue("a/d", variables={"run": f"{PLANTED}-6"})
    job = runner.claim_one()
    assert PLANTED not in str(job), "the claim carries no value"
    assert len(fetched(runner, job)) == 6
    runner.finish(job, p_plan_summary={"has_changes": True})
    runner.finish(runner.claim_one(), "FAILED", p_error={"message": "no"})
    tables = world.owner.rows(
        "select format('%%I.%%I', schemaname, tablename) from pg_tables where schemaname in ('public', 'private')"
    )
    found = [
        table for table in tables
        if world.owner.rows(f"select from {table} as t where to_jsonb(t)::text like %s limit 1", f"%{PLANTED}%")
    ]  # fmt: skip
    assert found == ["public.variables"]
    audited = world.owner.rows(
        "select detail from public.audit_events where action = 'variable.set' and org_id = %s", org.id
    )
    assert {name for detail in audited for name in detail["names"]} == {"made", "MADE", "GROUP", "org", "x.pem"}


def age(world: World, org: Organization, days: int) -> None:
    """Make every variable of an organisation, and every use of one, this much older."""
    for statement in (
        "update public.variables set created_at = created_at - make_interval(days => %s) where org_id = %s",
        """update private.variable_uses as u set used_at = used_at - make_interval(days => %s)
           from public.variables as v where v.id = u.variable_id and v.org_id = %s""",
    ):
        world.owner.connection.execute(statement, [days, org.id])


def test_the_last_use_names_the_job_and_survives_a_new_version(world: World, org: Organization, runner: Runner) -> None:
    put(org, "a", "size", 1)
    put(org, "a", "zone", "x")
    put(org, MODULE, "zone", "y")
    assert {each["name"]: each["last_use"] for each in effective(org)} == {"size": None, "zone": None}
    org.enqueue(MODULE)
    job = runner.claim_one()
    assert effective(org)[0]["last_use"] is None, "a claim alone reads no value"
    fetched(runner, job)
    runner.finish(job)
    put(org, "a", "size", 2)
    used = {each["name"]: each["last_use"]["job"] for each in effective(org)}
    assert used == {"size": job["id"], "zone": job["id"]}
    age(world, org, 31)

    unused = {(each["path"], each["name"]) for each in org.owner.call("list_unused_variables", p_org=org.id)}
    assert unused == {("a", "size"), ("a", "zone"), (MODULE, "zone")}
    org.enqueue(MODULE)
    again = runner.claim_one()
    fetched(runner, again)
    unused = {(each["path"], each["name"]) for each in org.owner.call("list_unused_variables", p_org=org.id)}
    assert unused == {("a", "zone")}, "the module's own value hides it"
    assert effective(org)[0]["last_use"]["number"] == again["number"]
    put(org, "a", "new", 1)
    assert len(org.owner.call("list_unused_variables", p_org=org.id)) == 1, "a new one may be used yet"


def test_the_users_of_a_variable_are_modules_that_get_it_and_people_who_run_them(org: Organization) -> None:
    org.module("a/d")
    org.module("other/e")
    variable = put(org, "a", "size", 1)
    put(org, MODULE, "size", 2)
    org.member("operator")
    users = org.member("viewer").call("list_variable_users", p_variable=variable["id"])
    assert users["modules"] == ["a/d"]
    assert {each["role"] for each in users["members"]} == {"owner", "operator"}
    assert (users["accounts"], users["runners"]) == ([], [])


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD", "PATH", "path", "HOME", "TMPDIR", "ENV", "TF_WORKSPACE", "TF_DATA_DIR", "TF_INPUT", "NODE_OPTIONS",
     "TF_HTTP_PASSWORD", "PULUMI_HOME", "PULUMI_BACKEND_URL", "BASH_ENV", "GIT_SSH_COMMAND", "Tf_Cli_Args_plan"],
)  # fmt: skip
def test_a_variable_that_every_job_would_refuse_cannot_be_set(org: Organization, name: str) -> None:
    with refused("RY422", f'A job may not set "{name}".'):
        put(org, MODULE, name, "x", "env")
    assert put(org, MODULE, name, "x")["kind"] == "input", "an input of that name is the module's own"


@pytest.mark.parametrize("name", ["PATHS", "HOMEPAGE", "TF_LOG", "MY_PATH", "PULUMI_CONFIG_PASSPHRASE", "NODES"])
def test_a_variable_with_a_similar_name_can_be_set(org: Organization, name: str) -> None:
    assert put(org, MODULE, name, "x", "env")["name"] == name
