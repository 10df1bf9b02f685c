"""A runner as a form: the accepted input, the refused input, and the values that are sent."""

import pytest

from app.runners.view.form import build_accounts, check_host, check_runner, new_name_problem, read_runner
from app.ui.view import TYPE_WORDS

WORKER = {
    "name": "build-host-03",
    "labels": ["gpu=true"],
    "capacity": 2,
    "service_account_id": None,
    "allow_multiple_instances": False,
    "accepted_job_types": list(TYPE_WORDS),
    "type": "self-hosted",
}
HELD = read_runner(WORKER)
FORM = {"name": "build-host-03", "labels": "gpu=true", "capacity": "2", "account_id": "none"} | {
    f"type:{name}": "on" for name in TYPE_WORDS
}


def test_a_form_left_as_it_is_sends_nothing() -> None:
    checked = check_runner(FORM, HELD)
    assert checked.errors == {}
    assert checked.spec == {}


def test_only_changed_fields_are_sent() -> None:
    form = FORM | {"labels": "gpu=true, zone=eu", "capacity": "8", "account_id": "a-1", "allows_many": "on"}
    checked = check_runner(form, HELD)
    assert checked.spec == {
        "labels": ["gpu=true", "zone=eu"],
        "capacity": 8,
        "allow_multiple_instances": True,
        "service_account_id": "a-1",
    }


def test_a_runner_that_accepts_every_type_is_shown_with_all_of_them() -> None:
    held = read_runner(WORKER | {"accepted_job_types": None})
    assert check_runner(FORM, held).spec == {}
    assert held["types"] == list(TYPE_WORDS)


def test_types_are_chosen_and_at_least_one_is_needed() -> None:
    plans = {key: value for key, value in FORM.items() if not key.startswith("type:")} | {"type:PLAN": "on"}
    assert check_runner(plans, HELD).spec == {"accepted_job_types": ["PLAN"]}
    none = {key: value for key, value in FORM.items() if not key.startswith("type:")}
    assert "types" in check_runner(none, HELD).errors


def test_an_account_is_removed_by_choosing_none() -> None:
    held = read_runner(WORKER | {"service_account_id": "a-1"})
    assert check_runner(FORM, held).spec == {"service_account_id": None}


def test_a_cloud_hosted_runners_account_stays_although_the_form_does_not_show_it() -> None:
    held = read_runner(WORKER | {"type": "cloud-hosted", "service_account_id": "a-1"})
    form = {key: value for key, value in FORM.items() if key != "account_id"}
    assert held["is_cloud"]
    assert check_runner(form, held).spec == {}


@pytest.mark.parametrize(
    ("key", "text"),
    [("name", "-x"), ("name", ""), ("labels", "GPU!"), ("capacity", "0"), ("capacity", "257"), ("capacity", "two")],
)
def test_a_value_that_the_database_would_refuse_is_reported_at_its_field(key: str, text: str) -> None:
    assert set(check_runner(FORM | {key: text}, HELD).errors) == {key}


def test_a_new_runner_is_checked_the_same_way() -> None:
    assert check_host({"labels": "gpu=true zone=eu", "capacity": "4"}).spec == {
        "labels": ["gpu=true", "zone=eu"],
        "capacity": 4,
    }
    assert set(check_host({"labels": "GPU!", "capacity": "x"}).errors) == {"labels", "capacity"}
    assert new_name_problem("build-host-03") == ""
    assert "build-host" in new_name_problem("build host")


def test_a_disabled_account_is_marked() -> None:
    rows = [{"id": "1", "name": "k8s", "is_disabled": True}, {"id": "2", "name": "ci", "is_disabled": False}]
    assert [item["name"] for item in build_accounts(rows)] == ["k8s (disabled)", "ci"]
