"""`terraform_remote_state` between modules, with OpenTofu itself: TF_TOKEN_<host> and a grant are all it needs."""

from pathlib import Path

import httpx

from tests.integration.worker_bench import Bench
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal

READER = """
data "terraform_remote_state" "network" {
  backend = "remote"
  config = {
    hostname     = "127.0.0.1"
    organization = "%s"
    workspaces   = { name = "apps.web.%s" }
  }
}
output "seen" { value = data.terraform_remote_state.network.outputs.greeting }
"""


def test_a_module_reads_the_outputs_of_another_by_grant(
    served: Bench, running_stack: RunningStack, tmp_path: Path
) -> None:
    bench = served
    network = bench.module()
    bench.finished("APPLY", network)
    slug = bench.rows("organizations", id=bench.org)[0]["slug"]
    name = bench.rows("modules", id=network)[0]["name"]
    reader = bench.module(source={"files": {"main.tf": READER % (slug, name)}})
    refused = bench.wait_job(bench.enqueue("PLAN", reader))
    assert refused["status"] == "FAILED", bench.log_of(refused["id"])
    [proposal] = bench.rpc("list_dependencies", p_org=bench.org)["proposals"]
    assert (proposal["consumer_id"], proposal["producer_id"]) == (reader, network), "refused, and found all the same"
    bench.rpc("grant_outputs", p_module=network, p_reader=reader)
    bench.finished("APPLY", reader)
    terminal = Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})
    path = bench.rows("modules", id=reader)[0]["path"]
    assert terminal.run("modules", "outputs", path, "seen").stdout == "hello world\n"
    source = bench.rows("modules", id=network)[0]["path"]
    assert [row["reader"] for row in terminal.json("modules", "grants", source)] == [path]
    assert terminal.run("modules", "ungrant", source, "--to", path).returncode == 0
    again = bench.wait_job(bench.enqueue("PLAN", reader))
    assert again["status"] == "FAILED"


def test_service_discovery_names_the_api_and_requests_without_a_valid_token_are_refused(
    running_stack: RunningStack,
) -> None:
    for path in ("/.well-known/terraform.json", "/functions/v1/terraform/.well-known/terraform.json"):
        served = httpx.get(f"{running_stack.url}{path}", timeout=30).json()
        assert served["tfe.v2"].endswith("/functions/v1/terraform/api/v2/")
    api = f"{running_stack.url}/functions/v1/terraform/api/v2"
    assert httpx.get(f"{api}/ping", timeout=30).status_code == 204
    for token, status in (({}, 401), ({"authorization": "Bearer nonsense"}, 401)):
        answer = httpx.get(f"{api}/organizations/x/workspaces/a.b", headers=token, timeout=30)
        assert (answer.status_code, bool(answer.json()["errors"])) == (status, True)
    assert httpx.get(f"{api}/organizations/x/workspaces", timeout=30).status_code == 401
    assert httpx.post(f"{api}/organizations/x/workspaces/a.b", timeout=30).status_code == 404
