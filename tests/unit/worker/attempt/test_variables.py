"""Sealed variables: the runner opens a value that the command sealed, and only in the place that it was sealed for."""

import base64
from pathlib import Path
from typing import Any

import pytest

from cli.variables.sealing import seal, write_new_key
from tests.unit.worker.fakes import Network
from tests.unit.worker.workspaces import open_workspace
from worker.api.replies import GivenVariable
from worker.attempt.variables import Keys, key_id_of, texts_in
from worker.errors import JobFailed
from worker.steps.prepare import take_variables

SECRET = "xyzzy plugh"


@pytest.fixture
def key(tmp_path: Path) -> dict[str, str]:
    public = write_new_key(tmp_path / "sealing.key")
    assert (tmp_path / "sealing.key").stat().st_mode & 0o777 == 0o600
    (known,) = Keys.read([tmp_path / "sealing.key"]).known
    return {"id": known, "public_key": public}


@pytest.fixture
def keys(key: dict[str, str], tmp_path: Path) -> Keys:
    return Keys.read([tmp_path / "sealing.key"])


def given(key: dict[str, str], value: Any = SECRET, **more: Any) -> GivenVariable:
    made = seal(key, ("a/b", "input", "password", False), value)
    return GivenVariable.model_validate({"path": "a/b", **made, **more})


@pytest.mark.parametrize("value", [SECRET, "", "ä\n", {"user": "me", "list": [1, None]}, 7, None])
def test_a_sealed_value_is_opened_unchanged(key: dict[str, str], keys: Keys, value: Any) -> None:
    _, (opened,) = keys.open_all([given(key, value)])
    assert opened.value == value
    assert SECRET.encode() not in base64.b64decode(given(key).value)


@pytest.mark.parametrize("elsewhere", [{"path": "a/c"}, {"path": ""}, {"name": "x"}, {"kind": "env"}, {"is_hcl": True}])
def test_a_box_that_was_copied_to_another_place_stays_closed(
    key: dict[str, str], keys: Keys, elsewhere: dict[str, Any]
) -> None:
    with pytest.raises(JobFailed) as caught:
        keys.open_all([given(key, **elsewhere)])
    assert caught.value.code == "sealed_elsewhere"
    assert SECRET not in str(caught.value)


def test_a_runner_without_the_key_and_a_damaged_box_are_named(key: dict[str, str], keys: Keys, tmp_path: Path) -> None:
    with pytest.raises(JobFailed, match=f"sealed with key {key['id']}, which this runner does not have"):
        Keys({}).open_all([given(key)])
    box = base64.b64decode(given(key).value)
    damaged = base64.b64encode(box[:-1] + bytes([box[-1] ^ 1])).decode()
    with pytest.raises(JobFailed, match="The variable password cannot be opened"):
        keys.open_all([given(key, value=SECRET).model_copy(update={"value": damaged})])
    for content in ("", "x", base64.b64encode(b"short").decode()):
        (tmp_path / "bad.key").write_text(content)
        with pytest.raises(JobFailed, match=r"bad\.key cannot be read"):
            Keys.read([tmp_path / "bad.key"])
    with pytest.raises(JobFailed, match=r"none\.key cannot be read"):
        Keys.read([tmp_path / "none.key"])


def test_plans_of_jobs_with_secrets_are_sealed_and_others_are_not(key: dict[str, str], keys: Keys) -> None:
    plan = b"PK plan with " + SECRET.encode()
    assert keys.seal(plan) == plan
    of_job, _ = keys.open_all([given(key)])
    sealed = of_job.seal(plan)
    assert SECRET.encode() not in sealed
    assert of_job.unseal(sealed) == plan
    assert keys.unseal(plan) == plan
    with pytest.raises(JobFailed, match="The saved plan is sealed with key"):
        Keys({}).unseal(sealed)


def test_every_text_in_a_secret_is_masked() -> None:
    found = texts_in([{"a": ["one", {"b": 22}]}, '"three"', None, True])
    assert {"one", "22", "three"} <= set(found)
    assert "True" not in found


@pytest.mark.anyio
async def test_the_log_masks_a_secret_before_a_step_uses_it(key: dict[str, str], tmp_path: Path) -> None:
    answer = {"variables": [given(key).model_dump(mode="json")]}
    network = Network(lambda name, *_: answer if name == "worker_variables" else {})
    environ = {"RUNYARD__SEALING__KEYFILES": str(tmp_path / "sealing.key")}
    space = open_workspace(tmp_path, network=network, environ=environ)
    await take_variables(space)
    assert space.variables.inputs == {"password": SECRET}
    assert SECRET not in space.log.redactor.redact(f"the password is {SECRET}, {SECRET.encode().hex()}")
    assert key_id_of(space.keys.known[key["id"]]) == space.keys.sealing
