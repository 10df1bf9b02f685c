"""A state's resources as people read them: addresses, and no secrets."""

from cli.modules.states import MASKED, brought_words, resources_of


def instance(**more: object) -> dict[str, object]:
    return {"attributes": {"id": "i-1", "size": 3}, **more}


def test_addresses_are_the_engines() -> None:
    state = {
        "resources": [
            {"mode": "managed", "type": "a", "name": "one", "instances": [instance()]},
            {"mode": "data", "type": "a", "name": "two", "instances": [instance()]},
            {
                "module": "module.m",
                "type": "a",
                "name": "n",
                "instances": [instance(index_key=0), instance(index_key="k")],
            },
        ]
    }
    addresses = ["a.one", "data.a.two", "module.m.a.n[0]", 'module.m.a.n["k"]']
    assert [each["address"] for each in resources_of(state)] == addresses
    assert [each["address"] for each in resources_of(state, "a.one")] == ["a.one"]


def test_a_secret_is_masked_wherever_the_state_repeats_it() -> None:
    path = [[{"type": "get_attr", "value": "password"}]]
    secret = {
        "attributes": {"password": "s3cret", "copy": {"deep": ["s3cret"]}, "size": 3},
        "sensitive_attributes": path,
    }
    other = {"attributes": {"token": "t0ken", "id": "x"}}
    state = {
        "outputs": {"token": {"value": "t0ken", "sensitive": True}, "open": {"value": "x"}},
        "resources": [{"type": "a", "name": "b", "instances": [secret, other]}],
    }
    shown = [each["attributes"] for each in resources_of(state)]
    assert shown == [{"password": MASKED, "copy": MASKED, "size": 3}, {"token": MASKED, "id": "x"}]


def test_a_first_plan_with_changes_notifies() -> None:
    state = {"backend": "s3", "serial": 88, "lineage": "l", "resources": 22}
    job = {
        "module_path": "a/b",
        "status": "SUCCEEDED",
        "result": {"brought_state": state},
        "plan_summary": {"update": 3},
    }
    assert "serial 88 with 22 resources, from s3.\nFirst plan: 3 to change. Nothing was applied." in brought_words(job)
    assert "Its first plan failed" in brought_words({**job, "status": "FAILED"})
