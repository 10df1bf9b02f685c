"""Variables on their way to a real engine: inputs, expressions, environment and files, and which of them wins."""

from typing import Any

from tests.integration.worker_bench import Bench, bench

__all__ = ["bench"]

CODE = """
variable "region" { default = "of the code" }
variable "sizes" {
  type    = list(number)
  default = []
}
variable "label" { default = "of the code" }
variable "owner" { default = "of the code" }
variable "database_password" { default = "of the code" }
output "all" {
  value = {
    region = var.region
    sizes  = var.sizes
    label  = var.label
    owner  = var.owner
    file   = file("${path.module}/certificates/ca.pem")
  }
}
output "leak" { value = "the password is ${var.database_password}" }
"""
# Named so that an engine reads it after every usual name.
OF_THE_SOURCE = 'region = "of the source"\nlabel = "of the source"\n'


def put(bench: Bench, path: str, *variables: dict[str, Any]) -> None:
    bench.rpc("set_variables", p_org=bench.org, p_path=path, p_variables=list(variables))


def of_input(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "input", "name": name, "value": value, **more}


def test_inputs_environment_and_files_reach_the_engine_and_the_nearest_wins(bench: Bench) -> None:
    bench.runner()
    files = {"main.tf": CODE, "zzz.auto.tfvars": OF_THE_SOURCE}
    module = bench.module(source={"files": files}, hooks={"before_plan": "echo colour=$COLOUR"})
    path = bench.rows("modules", id=module)[0]["path"]
    put(bench, "", of_input("region", "of the organisation"), of_input("owner", "platform", is_enforced=True))
    put(bench, "apps", of_input("sizes", [1]), {"kind": "env", "name": "COLOUR", "value": "blue"})
    certificate = {"kind": "file", "name": "certificates/ca.pem", "value": "trusted"}
    secret = of_input("database_password", "xyzzy-plugh-4711")
    put(bench, path, of_input("sizes", "[1 + 1, 3]", is_hcl=True), of_input("owner", "me"), certificate, secret)

    job = bench.finished("APPLY", module, variables={"label": "of the run", "owner": "of the run"})

    assert job["result"]["outputs"]["all"]["value"] == {
        "region": "of the organisation", "sizes": [2, 3], "label": "of the run", "owner": "platform", "file": "trusted",
    }  # fmt: skip
    log = bench.log_of(job["id"])
    assert "colour=blue" in log
    assert "the password is ***" in log
    assert "xyzzy-plugh-4711" not in log
