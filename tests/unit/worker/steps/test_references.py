"""Variables that the runner reads from vaults: only from sources that its operator allows, and masked before a step uses them."""

import base64
from pathlib import Path
from typing import Any

import pytest
from nacl.public import PrivateKey

from tests.unit.worker.dispatch.serving import Call, serve
from tests.unit.worker.fakes import Network
from tests.unit.worker.workspaces import open_workspace
from worker.attempt.variables import key_id_of
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


# Spellings of another place that a vault, a proxy or a program may tidy up into it.
CLIMBING = [
    "vault://kv/data/team/../other/prod",
    "vault://kv/data/team/%2e%2e/other/prod",
    "vault://kv/data/team/%2E%2E/other/prod",
    "vault://kv/data/team/%252e%252e/other/prod",
    "vault://kv/data/team/..%2fother/prod",
    "vault://kv/data/team/..\\other/prod",
    "vault://kv/data/team\\..\\other/prod",
    "vault://kv/data/team/./x",
    "vault://kv/data/team/..",
    "vault://kv/data/team/..#value",
    "vault://kv/data/team//other/prod",
    "vault://kv/data/team/x/",
    "vault://kv/data/team/x?list=true",
    "vault://kv/data/team/x;version=1",
    "vault://kv/data/team/\uff0e\uff0e/other/prod",
    "vault://kv/data/team/\u2024\u2024/other/prod",
    "vault://kv/data/team/x\u200b",
    "vault://kv/data/team/x\x7f",
    "vault:///kv/data/team/x",
    "VAULT://kv/data/team/x",
    "aws-sm://eu-west-1/team/*",
    "file://srv/team/x",
    "file:////srv/team/x",
    "file:///srv/team/x#/../../other/prod",
    "file:///srv/team/x#",
    "file:///~root/team/x",
    "vault://kv/data/team/x\n#value",
]


@pytest.mark.anyio
@pytest.mark.parametrize("reference", CLIMBING)
async def test_a_reference_that_could_mean_another_place_is_refused(tmp_path: Path, reference: str) -> None:
    """Whatever the operator allows: the comparison is only as good as the reading of the vault."""
    space = opened(
        tmp_path, {"name": "a", "value": reference}, RUNYARD__SEALING__ALLOWEDSOURCES="*", VAULT_ADDR="http://x"
    )
    with pytest.raises(JobFailed, match="not an address that runners read") as caught:
        await take_variables(space)
    assert caught.value.code == "source_refused"


@pytest.mark.anyio
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_token_follows_a_redirect_of_vault(tmp_path: Path, status: int) -> None:
    """An old Vault, or a proxy in front of it, redirects a path that is not tidy."""
    seen: list[str] = []

    def elsewhere(call: Call) -> tuple[int, Any]:
        seen.append(call.headers.get("x-vault-token", ""))
        return 200, {"data": {"value": SECRET}}

    def redirect(_: Call) -> tuple[int, Any]:
        return status, {"location": "/v1/kv/other/prod"}

    with serve({"GET /v1/kv/team/app": redirect, "GET /v1/kv/other/prod": elsewhere}) as address:
        space = opened(
            tmp_path,
            {"name": "a", "value": "vault://kv/team/app"},
            RUNYARD__SEALING__ALLOWEDSOURCES="vault://kv/{group}/*",
            VAULT_ADDR=f"http://{address}",
            VAULT_TOKEN="s.right",
        )
        with pytest.raises(JobFailed, match="sends the request elsewhere"):
            await take_variables(space)
    assert seen == []


@pytest.mark.anyio
async def test_a_source_that_does_not_answer_names_the_variable(tmp_path: Path) -> None:
    for reference, why in ((f"file://{tmp_path}/none", "cannot be read"), ("vault://kv/x", "knows no Vault")):
        space = opened(tmp_path, {"name": "password", "value": reference}, RUNYARD__SEALING__ALLOWEDSOURCES="*")
        with pytest.raises(JobFailed, match=f"The variable password could not be read: .*{why}") as caught:
            await take_variables(space)
        assert caught.value.code == "source_unreadable"
