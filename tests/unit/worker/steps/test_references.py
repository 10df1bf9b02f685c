"""Variables that the runner reads from vaults: only from sources that its operator allows, and masked before a step uses them."""

import base64
from pathlib import Path
from typing import Any

import pytest
from nacl.public import PrivateKey

from tests.unit.worker.dispatch.serving import serve
from tests.unit.worker.fakes import Network
from tests.unit.worker.workspaces import open_workspace
from worker.attempt.sealed_values import key_id_of
from worker.attempt.workspace import Workspace
from worker.errors import JobFailed
from worker.steps.prepare import take_variables

SECRET = "plover-22-xyzzy"


def opened(folder: Path, *references: dict[str, Any], **environ: str) -> Workspace:
    """A job of the module team/app with these references, on a runner that has the organisation's key."""
    key = PrivateKey.generate()
    file = folder / "sealing.key"
    file.write_text(base64.b64encode(bytes(key)).decode())
    common = {"kind": "input", "path": "team", "is_reference": True, "key_id": key_id_of(key)}
    answer = {"variables": [{**common, **each} for each in references]}
    network = Network(lambda name, *_: answer if name == "worker_variables" else {})
    settings = {"RUNYARD__SEALING__KEYFILES": str(file), **environ}
    return open_workspace(folder, network=network, environ=settings, module={"path": "team/app"})


@pytest.mark.anyio
async def test_files_and_vault_are_read_masked_and_the_plan_is_sealed(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "password").write_text(f"{SECRET}\n")
    (tmp_path / "team" / "list").write_text('["a", 1]')
    vault = {"GET /v1/kv/data/team/app": lambda _: (200, {"data": {"data": {"token": "s-9931-vault"}, "metadata": {}}})}
    with serve(vault) as address:
        space = opened(
            tmp_path,
            {"name": "password", "value": f"file://{tmp_path}/team/password"},
            {"name": "zones", "value": f"file://{tmp_path}/team/list"},
            {"name": "TOKEN", "value": "vault://kv/data/team/app#token", "kind": "env"},
            RUNYARD__SEALING__ALLOWEDSOURCES=f"file://{tmp_path}/{{group}}/*,vault://kv/data/{{module}}",
            VAULT_ADDR=f"http://{address}/",
            VAULT_TOKEN="s.right",
        )
        await take_variables(space)
    assert space.variables.inputs == {"password": SECRET, "zones": ["a", 1]}
    assert space.variables.env == {"TOKEN": "s-9931-vault"}
    shown = space.log.redactor.redact(f"{SECRET} {SECRET.encode().hex()} s-9931-vault s.right")
    assert not [each for each in (SECRET, SECRET.encode().hex(), "s-9931-vault", "s.right") if each in shown]
    assert space.keys.seal(b"plan") != b"plan"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("allowed", "reference"),
    [
        ("", "file:///etc/hostname"),
        ("file:///srv/*", "file:///etc/hostname"),
        ("file:///srv/*", "file:///srv/../etc/hostname"),
        ("file:///srv/{module}/*", "file:///srv/other/app/x"),
        ("vault://kv/data/{group}", "vault://kv/data/team2"),
        ("vault://kv/*", "aws-sm://kv/x"),
    ],
)
async def test_a_source_that_the_operator_does_not_allow_is_refused(
    tmp_path: Path, allowed: str, reference: str
) -> None:
    space = opened(tmp_path, {"name": "a", "value": reference}, RUNYARD__SEALING__ALLOWEDSOURCES=allowed)
    with pytest.raises(JobFailed, match="which this runner does not allow") as caught:
        await take_variables(space)
    assert caught.value.code == "source_refused"


@pytest.mark.anyio
async def test_a_source_that_does_not_answer_names_the_variable(tmp_path: Path) -> None:
    for reference, why in ((f"file://{tmp_path}/none", "cannot be read"), ("vault://kv/x", "knows no Vault")):
        space = opened(tmp_path, {"name": "password", "value": reference}, RUNYARD__SEALING__ALLOWEDSOURCES="*")
        with pytest.raises(JobFailed, match=f"The variable password could not be read: .*{why}") as caught:
            await take_variables(space)
        assert caught.value.code == "source_unreadable"
