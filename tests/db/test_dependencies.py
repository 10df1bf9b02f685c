"""Dependencies between modules: no cycles, rights on both ends, bound values, and inputs that changed."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from tests.db.world import Organization, Runner, World, refused, this


def depend(org: Organization, consumer: str, producer: str, **options: Any) -> dict[str, Any]:
    made: dict[str, Any] = org.owner.call(
        "set_dependency", p_consumer=org.modules[consumer], p_producer=org.modules[producer], p_options=options
    )
    return made


def listed(org: Organization, path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = org.owner.call("list_dependencies", p_org=org.id, p_path=path)
    return found


def edges(org: Organization) -> list[tuple[str, str]]:
    return [(edge["producer"], edge["consumer"]) for edge in listed(org)["dependencies"]]


@pytest.fixture
def net(org: Organization) -> Organization:
    """Four modules of one organisation, without dependencies."""
    for path in ("net/vpc", "net/subnets", "apps/db", "apps/site"):
        org.module(path)
    return org


def test_cycle_is_refused_with_its_names(net: Organization) -> None:
    depend(net, "net/subnets", "net/vpc")
    depend(net, "apps/db", "net/subnets")
    depend(net, "apps/site", "apps/db")
    with refused("RY409", "This would be a cycle: ") as caught:
        depend(net, "net/vpc", "apps/db")
    around = "net/vpc → net/subnets → apps/db → net/vpc → net/subnets → apps/db → net/vpc"
    cycle = str(caught.value.diag.message_primary).removeprefix("This would be a cycle: ").removesuffix(".")
    assert (cycle in around, cycle.count("→")) == (True, 3)
    with refused("RY422", '"net/vpc" cannot depend on itself.'):
        depend(net, "net/vpc", "net/vpc")
    assert edges(net) == [("net/subnets", "apps/db"), ("apps/db", "apps/site"), ("net/vpc", "net/subnets")]


def test_an_input_is_bound_or_set_by_two_people_at_once_never_both(world: World, net: Organization) -> None:
    other, site = net.member("operator"), net.modules["apps/site"]
    variable = {"kind": "input", "name": "vpc_id", "value": "mine"}

    def put() -> Any:
        return other.call("set_variables", p_org=net.id, p_path="apps/site", p_variables=[variable])

    bind = {"p_consumer": site, "p_producer": net.modules["net/vpc"], "p_options": {"bindings": {"vpc_id": "id"}}}
    later = world.during(other, put, lambda: net.owner.call("set_dependency", **bind))
    with pytest.raises(psycopg.Error, match="has a value for its input"):
        later.result()
    other.call("remove_variable", p_variable=net.owner.one("select id from public.variables where path = 'apps/site'"))
    later = world.during(net.owner, lambda: net.owner.call("set_dependency", **bind), put)
    with pytest.raises(psycopg.Error, match="bound"):
        later.result()


def test_two_people_cannot_close_a_cycle_together(world: World, net: Organization) -> None:
    other = net.member("operator")
    one, two = net.modules["net/vpc"], net.modules["apps/site"]
    second = world.during(
        net.owner,
        lambda: depend(net, "apps/site", "net/vpc"),
        lambda: other.call("set_dependency", p_consumer=one, p_producer=two),
    )
    with pytest.raises(psycopg.Error, match="This would be a cycle"):
        second.result()


def test_steps_are_the_longest_way_to_a_module(net: Organization) -> None:
    depend(net, "net/subnets", "net/vpc")
    depend(net, "apps/site", "net/subnets")
    depend(net, "apps/site", "net/vpc")
    assert {module["path"]: module["step"] for module in listed(net)["modules"]} == {
        "net/vpc": 1, "apps/db": 1, "net/subnets": 2, "apps/site": 3,
    }  # fmt: skip
    assert {module["path"] for module in listed(net, "apps/site")["modules"]} == {
        "apps/site", "net/vpc", "net/subnets",
    }  # fmt: skip


def test_binding_needs_an_admin_and_an_edge_an_operator(net: Organization, other_org: Organization) -> None:
    operator, viewer = net.member("operator"), net.member("viewer")
    ends = {"p_consumer": net.modules["apps/db"], "p_producer": net.modules["net/vpc"]}
    with refused("RY403", "your role is operator"):
        operator.call("set_dependency", **ends, p_options={"bindings": {"vpc_id": "id"}})
    assert operator.call("set_dependency", **ends)["bindings"] == {}
    with refused("RY403"):
        viewer.call("set_dependency", **ends)
    with refused("RY403"):
        viewer.call("remove_dependency", **ends)
    foreign = other_org.module("x/y")
    with refused("RY404", "There is no such module."):
        net.owner.call("set_dependency", p_consumer=net.modules["apps/db"], p_producer=foreign)
    assert viewer.call("list_dependencies", p_org=net.id)["dependencies"][0]["producer"] == "net/vpc"


def test_bindings_are_changed_one_by_one_and_removed_with_null(net: Organization) -> None:
    depend(net, "apps/db", "net/vpc", bindings={"vpc_id": "id", "cidr": "cidr"}, cascades="on_change")
    changed = depend(net, "apps/db", "net/vpc", bindings={"cidr": None, "vpc_id": "vpc"})
    assert (changed["bindings"], changed["cascades"]) == ({"vpc_id": "vpc"}, "on_change")
    net.owner.call("remove_dependency", p_consumer=net.modules["apps/db"], p_producer=net.modules["net/vpc"])
    assert edges(net) == []
    with refused("RY404", "There is no such dependency."):
        net.owner.call("remove_dependency", p_consumer=net.modules["apps/db"], p_producer=net.modules["net/vpc"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bindings": ["a"]}, "Bindings are an object of input names and output names."),
        ({"bindings": {"a b": "x"}}, "Bindings are an object of input names and output names."),
        ({"bindings": {"a": 1}}, "Bindings are an object of input names and output names."),
        ({"cascades": "sometimes"}, "A dependency cascades off, on_change or always."),
        ({"order": True}, "Unknown option: order."),
    ],
)
def test_wrong_options_are_refused(net: Organization, options: dict[str, Any], words: str) -> None:
    with refused("RY422", words):
        depend(net, "apps/db", "net/vpc", **options)


def test_an_input_has_a_value_or_a_binding(net: Organization) -> None:
    site = net.modules["apps/site"]
    net.owner.call("update_module", p_module=site, p_spec={"inputs": {"region": "eu"}})
    with refused("RY409", '"apps/site" has a value for its input "region" already.'):
        depend(net, "apps/site", "net/vpc", bindings={"region": "region"})
    depend(net, "apps/site", "net/vpc", bindings={"vpc_id": "id"})
    with refused("RY409", 'The input "vpc_id" is bound to the output "id" of "net/vpc".'):
        net.owner.call("update_module", p_module=site, p_spec={"inputs": {"vpc_id": "vpc-1"}})
    with refused("RY409", 'The input "vpc_id" is bound to the output "id" of "net/vpc".'):
        net.enqueue("apps/site", variables={"vpc_id": "vpc-1"})
    with refused("RY409", 'The input "vpc_id" of "apps/site" is bound to "net/vpc" already.'):
        depend(net, "apps/site", "apps/db", bindings={"vpc_id": "id"})


def test_module_that_keeps_its_own_backend_has_no_outputs_to_bind(net: Organization) -> None:
    net.owner.call("update_module", p_module=net.modules["net/vpc"], p_spec={"backend": "own"})
    with refused("RY409", '"net/vpc" keeps its own backend, so Runyard has no outputs of it.'):
        depend(net, "apps/site", "net/vpc", bindings={"vpc_id": "id"})
    depend(net, "apps/site", "net/vpc")


def test_module_with_consumers_is_not_removed_without_naming_them(net: Organization) -> None:
    depend(net, "apps/site", "net/vpc")
    depend(net, "apps/db", "net/vpc")
    with refused("RY409", 'Other modules depend on "net/vpc": apps/db, apps/site.'):
        net.owner.call("delete_module", p_module=net.modules["net/vpc"], p_confirm_name="vpc")
    net.owner.call("delete_module", p_module=net.modules["apps/db"], p_confirm_name="db")
    assert edges(net) == [("net/vpc", "apps/site")]


def replace(org: Organization, path: str, *found: dict[str, Any]) -> Any:
    return org.owner.call("replace_dependencies", p_org=org.id, p_path=path, p_dependencies=list(found))


def test_import_replaces_the_dependencies_of_a_group_or_nothing(net: Organization) -> None:
    depend(net, "net/subnets", "net/vpc")
    depend(net, "apps/db", "net/vpc")
    site = {"consumer": "apps/site", "producer": "net/subnets", "bindings": {"ids": "ids"}, "cascades": "always"}
    assert replace(net, "apps", site) == {"before": 1, "now": 1}
    assert edges(net) == [("net/subnets", "apps/site"), ("net/vpc", "net/subnets")]
    with refused("RY422", '"net/vpc" is not below "apps".'):
        replace(net, "apps", {"consumer": "net/vpc", "producer": "apps/db"})
    with refused("RY404", 'There is no module "apps/nothing".'):
        replace(net, "", site, {"consumer": "apps/nothing", "producer": "apps/db"})
    with refused("RY409", "This would be a cycle"):
        replace(
            net, "", {"consumer": "apps/db", "producer": "apps/site"}, {"consumer": "apps/site", "producer": "apps/db"}
        )
    with refused("RY422", "Dependencies are a list of at most 2,000 objects."):
        replace(net, "", "x")  # type: ignore[arg-type]
    assert edges(net) == [("net/subnets", "apps/site"), ("net/vpc", "net/subnets")]


def state(serial: int, **outputs: Any) -> str:
    secret = {name: {"value": value, "sensitive": name.startswith("secret")} for name, value in outputs.items()}
    return json.dumps({"version": 4, "serial": serial, "lineage": "l", "outputs": secret, "resources": []})


def applied(org: Organization, runner: Runner, path: str, serial: int = 1, **outputs: Any) -> int:
    """An apply of a module that reads its bound inputs and writes a state with these outputs."""
    number = org.enqueue(path, "APPLY")
    job = runner.claim_one()
    if job["payload"]["module"].get("bindings"):
        runner.call("worker_bound_values", **this(job))
    runner.call("worker_state_put", **this(job), p_body=state(serial, **outputs))
    runner.finish(job)
    return number


def test_code_that_reads_outputs_of_another_module_is_a_proposal_until_it_depends_on_it(net: Organization) -> None:
    runner = net.runner("r1", is_assigned_to_all_modules=True)
    slug = net.owner.one("select slug from public.organizations where id = %s", net.id)

    def plan(*workspaces: str, status: str = "SUCCEEDED") -> list[str]:
        net.enqueue("apps/site")
        reads = [{"organization": slug, "workspace": each} for each in workspaces]
        runner.finish(
            runner.claim_one(), status, p_result={"reads": [*reads, {"organization": "x", "workspace": "net.vpc"}]}
        )
        return [row["producer"] for row in listed(net)["proposals"]]

    assert plan("net.vpc", "net.nothing", "apps.site", status="FAILED") == ["net/vpc"]
    assert plan("net.vpc", "apps.db") == ["apps/db", "net/vpc"]
    depend(net, "apps/site", "net/vpc")
    assert plan("net.vpc", "apps.db") == ["apps/db"]
    assert plan("net.vpc") == []
    assert listed(net, "net")["proposals"] == []


def test_leaseholder_reads_bound_values_with_their_types(world: World, net: Organization) -> None:
    runner = net.runner("r1", is_assigned_to_all_modules=True)
    applied(net, runner, "net/vpc", id="vpc-1", zones=["a", "b"], secret_key="hunter2")
    depend(net, "apps/site", "net/vpc", bindings={"vpc_id": "id", "zones": "zones", "key": "secret_key"})
    number = net.enqueue("apps/site")
    job = runner.claim_one()
    assert job["payload"]["module"]["bindings"] == {"vpc_id": "id", "zones": "zones", "key": "secret_key"}
    found = runner.call("worker_bound_values", **this(job))
    assert found == {
        "values": {"vpc_id": "vpc-1", "zones": ["a", "b"], "key": "hunter2"},
        "sensitive": ["key"],
    }
    everything = "select string_agg(j::text, '') from public.provision_jobs as j where org_id = %s"
    assert "hunter2" not in world.owner.one(everything, net.id)
    assert "hunter2" not in world.owner.one("select digests::text from private.read_inputs where job_id = %s", number)
    runner.finish(job)
    with refused("RY410"):
        runner.call("worker_bound_values", **this(job))


def test_missing_value_names_both_modules(net: Organization) -> None:
    runner = net.runner("r1", is_assigned_to_all_modules=True)
    depend(net, "apps/site", "net/vpc", bindings={"vpc_id": "id"})
    net.enqueue("apps/site")
    job = runner.claim_one()
    words = 'The input "vpc_id" of "apps/site" is the output "id" of "net/vpc", which '
    with refused("RY422", words + "has no state yet: it was never applied."):
        runner.call("worker_bound_values", **this(job))
    runner.finish(job, "FAILED")
    applied(net, runner, "net/vpc", other="x")
    net.enqueue("apps/site")
    with refused("RY422", words + 'has no output "id" in its state.'):
        runner.call("worker_bound_values", **this(runner.claim_one()))


def test_a_binding_allows_the_consumers_jobs_to_read_the_outputs(world: World, net: Organization) -> None:
    runner = net.runner("r1", is_assigned_to_all_modules=True)
    applied(net, runner, "net/vpc", id="vpc-1")
    depend(net, "apps/site", "net/vpc")
    net.enqueue("apps/site")
    slug = world.owner.one("select slug from public.organizations where id = %s", net.id)
    asked = {**this(runner.claim_one()), "p_org": slug, "p_path": "net/vpc"}
    with refused("RY403"):
        runner.call("worker_outputs_get", **asked)
    depend(net, "apps/site", "net/vpc", bindings={"vpc_id": "id"})
    assert runner.call("worker_outputs_get", **asked)["state"]["outputs"]["id"]["value"] == "vpc-1"


def changed(org: Organization, path: str) -> Any:
    return next(module["changed_inputs"] for module in listed(org)["modules"] if module["path"] == path)


def test_changed_output_is_shown_at_its_consumer_until_that_is_applied(net: Organization) -> None:
    runner = net.runner("r1", is_assigned_to_all_modules=True)
    applied(net, runner, "net/vpc", 1, id="vpc-1", secret_key="one", other=1)
    depend(net, "apps/site", "net/vpc", bindings={"vpc_id": "id", "key": "secret_key"})
    assert changed(net, "apps/site") == [], "it was never applied"
    applied(net, runner, "apps/site")
    applied(net, runner, "net/vpc", 2, id="vpc-1", secret_key="one", other=2)
    assert changed(net, "apps/site") == []
    applied(net, runner, "net/vpc", 3, id="vpc-1", secret_key="two", other=2)
    assert changed(net, "apps/site") == ["key"]
    applied(net, runner, "apps/site", 2)
    assert changed(net, "apps/site") == []
    depend(net, "apps/site", "net/vpc", bindings={"other": "other"})
    assert changed(net, "apps/site") == ["other"], "it was applied without it"


def test_apply_of_a_saved_plan_counts_as_applied_with_the_plan_s_values(net: Organization) -> None:
    runner = net.runner("r1", is_assigned_to_all_modules=True)
    applied(net, runner, "net/vpc", 1, id="vpc-1")
    depend(net, "apps/site", "net/vpc", bindings={"vpc_id": "id"})
    plan = net.enqueue("apps/site")
    job = runner.claim_one()
    runner.call("worker_bound_values", **this(job))
    runner.finish(job, p_plan_summary={"has_changes": True})
    applied(net, runner, "net/vpc", 2, id="vpc-2")
    net.enqueue("apps/site", "APPLY", plan_job_id=plan)
    runner.finish(runner.claim_one())
    assert changed(net, "apps/site") == ["vpc_id"]


def test_many_edges_are_listed_and_written_together(net: Organization) -> None:
    """A hundred modules in ten steps, each of which depends on all of the step before."""
    names = [[f"wide/s{step}-m{number}" for number in range(10)] for step in range(10)]
    for path in (name for row in names for name in row):
        net.module(path)
    found = [
        {"consumer": consumer, "producer": producer}
        for before, after in pairwise(names)
        for producer in before
        for consumer in after
    ]
    assert replace(net, "wide", *found)["now"] == 900
    steps = [module["step"] for module in listed(net, "wide")["modules"]]
    assert (len(steps), max(steps)) == (100, 10)


def test_sets_of_two_organisations_share_no_lock(world: World, net: Organization, other_org: Organization) -> None:
    first, second = other_org.module("a/one"), other_org.module("a/two")
    with net.owner.connection.transaction(), ThreadPoolExecutor(1) as pool:
        depend(net, "apps/site", "net/vpc")
        done = pool.submit(other_org.owner.call, "set_dependency", p_consumer=first, p_producer=second)
        assert done.result()["producer"] == "a/two"


def test_a_binding_wins_over_a_group_s_variable_and_an_enforced_one_over_the_binding(net: Organization) -> None:
    depend(net, "apps/site", "net/vpc", bindings={"vpc_id": "id", "zone": "zone"})
    for name, is_enforced in (("vpc_id", False), ("zone", True)):
        variable = {"kind": "input", "name": name, "value": "of the group", "is_enforced": is_enforced}
        net.owner.call("set_variables", p_org=net.id, p_path="apps", p_variables=[variable])
    of_site = net.owner.call("preview_variables", p_org=net.id, p_path="apps/site")
    of_db = net.owner.call("preview_variables", p_org=net.id, p_path="apps/db")
    assert [each["name"] for each in of_site] == ["zone"]
    assert [each["name"] for each in of_db] == ["vpc_id", "zone"]
