"""Code with a `cloud {}` block of another host moves in: its state is brought in, and its terminals change one line."""

from pathlib import Path

from tests.integration.test_own_backend import CODE, LOCAL, applied
from tests.integration.worker_bench import Bench, bench
from tests.support.cloud_terminal import CloudTerminal, personal_token
from tests.support.other_host import run_other_host
from tests.support.stack import RunningStack
from wire.cloud_block import cloud_block

__all__ = ["bench"]

HOST = "app.terraform.io"


def test_a_cloud_block_of_another_host_moves_in_with_its_state(
    bench: Bench, running_stack: RunningStack, tmp_path: Path
) -> None:
    applied(bench, tmp_path / "before", LOCAL)
    terminal = CloudTerminal(tmp_path / "code", bench.tofu, running_stack.url, personal_token(bench))
    slug = str(bench.rows("organizations", id=bench.org)[0]["slug"])
    block = cloud_block(f"https://{HOST}", slug, "shop/web")
    spec = {"source_kind": "inline", "source": {"files": {"main.tf": CODE, "cloud.tf": block}}, "engine": "tofu"}
    module = bench.rpc("create_module", p_org=bench.org, p_group_path="shop", p_name="web", p_spec=spec)["id"]
    (terminal.folder / "main.tf").write_text(CODE)
    with run_other_host((tmp_path / "before" / "terraform.tfstate").read_bytes()) as other:
        config = tmp_path / "operator.tfrc"
        config.write_text(other.cli_config(HOST))
        bench.runner(TF_CLI_CONFIG_FILE=str(config))
        with (terminal.folder / ".terraformrc").open("a") as file:
            file.write(other.cli_config(HOST))
        (terminal.folder / "cloud.tf").write_text(block)
        terminal.run("init", "-input=false")
        assert "terraform_data.greeting" in terminal.run("state", "list")
        refused = bench.wait_job(bench.enqueue("PLAN", module))
        assert refused["error"]["code"] == "backend_undecided"
        brought = bench.finished("PLAN", module, bring_state=True)
        assert brought["plan_summary"]["has_changes"] is False, bench.log_of(brought["id"])
        assert brought["result"]["brought_state"]["backend"] == "cloud"
        assert [each.rpartition("/")[2] for each in other.changes] == ["lock", "unlock"]
    # The other host has ended, and nothing asks for it any more.
    (terminal.folder / "cloud.tf").write_text(block.replace(HOST, "127.0.0.1"))
    terminal.run("init", "-input=false")
    assert "No changes" in terminal.run("plan")
    assert terminal.run("output", "-raw", "greeting") == "hello world"
    assert bench.finished("PLAN", module)["plan_summary"]["has_changes"] is False
