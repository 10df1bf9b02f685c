"""The API of `cloud {}`, called by HashiCorp's own client: what is answered works, what is refused is refused by name."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.engines.cache import cached
from tests.integration.worker_bench import Bench
from tests.support.extent import is_all
from tests.support.providers import GOTFE, build
from tests.support.stack import RunningStack
from wire.tokens import make_personal_token

CODE = """
variable "who" { default = "world" }
resource "terraform_data" "greeting" { input = "hello ${var.who}" }
output "greeting" { value = terraform_data.greeting.output }
"""
MISSING = "error: resource not found"


@pytest.fixture(scope="session")
def gotfe() -> Path:
    if cached(GOTFE) is None and not is_all() and shutil.which("go") is None:
        pytest.skip(f"{GOTFE.name} not found; `python -m tests.support.providers {GOTFE.name}` builds it")
    return build(GOTFE)


def answers(gotfe: Path, stack: RunningStack, bench: Bench, folder: Path) -> dict[str, str]:
    """Run all steps, and return what each printed."""
    token = make_personal_token()
    bench.rpc("create_personal_token", p_name="go-tfe", p_token_hash=token.hash, p_hint=token.hint)
    [organization] = bench.rows("organizations", id=bench.org)
    done = subprocess.run(
        [str(gotfe), stack.url, organization["slug"], str(folder)], env={**os.environ, "TFE_TOKEN": token.text},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(re.sub(r"Plan \d+", "Plan N", line).split(": ", 1) for line in done.stdout.splitlines())


REFUSED = {
    "variable create sensitive": "error: A sensitive variable is sealed on your machine. "
    "Use: runyard variables set --sealed, or the dashboard.",
    "lock again": "error: workspace already locked",
    "run apply again": "error: The run cannot be applied. It is applied.",
    "run discard again": "error: Plan N was discarded. Make a new plan.",
    "run apply discarded": "error: The run cannot be applied. Plan N was discarded. Make a new plan.",
    "run without an upload": "error: A run of this workspace needs a configuration version: the module has no code here. "
    "Upload the code, then create the run.",
    "workspace safe delete with resources": "error: conflict workspace cannot be safely deleted because it is still managing resources",
    "refused execution mode": 'error: execution-mode is not set here. It is "remote"; the module\'s page has its settings.',
    "refused run without refresh": "error: A run has no refresh here. Leave it out; docs/cloud-block.md lists what there is.",
    "refused organization create": MISSING,
    "refused teams": MISSING,
    "refused policy sets": MISSING,
    "refused registry": MISSING,
    "refused unknown workspace": MISSING,
    "refused plan as JSON": MISSING,
}
ANSWERED = {
    "entitlements": "true true",
    "project create": "gotfe",
    "project list": "1",
    "workspace create": "gotfe.first",
    "workspace create another": "done",
    "workspace read": "remote true",
    "workspace list": "2",
    "workspace update": "by go-tfe",
    "variable create": "go-tfe",
    "variable update": "you",
    "variable list": "1",
    "lock": "true",
    "unlock": "false",
    "upload create": "pending",
    "upload": "done",
    "upload read": "uploaded",
    "run": "planned true from go-tfe",
    "plan": "finished 1",
    "run apply": "done",
    "run applied": "applied",
    "run list": "1",
    "state current": "true true",
    "state download": "true",
    "state read": "true",
    "outputs": "greeting=hello you",
    "destroy planned": "planned true",
    "run discard": "done",
    "run discarded": "discarded false false true",
    "destroy applied": "applied",
    "workspace safe delete": "done",
    "workspace delete": "done",
}


def test_the_client_of_hashicorp_finds_what_is_served_and_is_refused_by_name(
    gotfe: Path, served: Bench, running_stack: RunningStack, tmp_path: Path
) -> None:
    (tmp_path / "main.tf").write_text(CODE)
    said = answers(gotfe, running_stack, served, tmp_path)
    assert "1 to add" in said.pop("plan log")
    assert "1 added" in said.pop("apply log")
    assert said.pop("organization read") == served.rows("organizations", id=served.org)[0]["slug"]
    assert said == ANSWERED | REFUSED
