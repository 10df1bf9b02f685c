"""Terraform and Pulumi, wherever they are found; OpenTofu has the other tests."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cli.engines.cache import find
from cli.engines.catalog import ENGINES, machine, system
from tests.integration.test_worker_isolation import EXTERNAL, external_mirror
from tests.integration.worker_bench import MODULE, Bench, bench

__all__ = ["bench", "external_mirror"]

PROGRAM = """
name: greeting
runtime: yaml
config:
  who: { type: string, default: world }
  size: { type: integer, default: 1 }
outputs:
  greeting: hello ${who}
  hidden:
    fn::secret: correct-horse-battery
"""


def folders(*names: str) -> str:
    """The folders of these engines, or skip the test."""
    found = [find(ENGINES[name]) for name in names]
    if not all(found):
        pytest.skip(f"{' and '.join(names)} not found; `make engines` builds them")
    return os.pathsep.join(str(path.parent) for path in found if path)


def test_versions_side_by_side_are_chosen_by_module_and_code(bench: Bench, tmp_path: Path) -> None:
    """Two versions of one engine: a script that answers as an old one and runs the real one, and the real one."""
    older = tmp_path / "older" / "tofu"
    older.parent.mkdir()
    older.write_text(f'#!/bin/sh\n[ "$1" = version ] && echo "OpenTofu v1.8.3" || exec {bench.tofu} "$@"\n')
    older.chmod(0o755)
    bench.runner(RUNYARD__ENGINE__ADDITIONALBINARYPATHS=os.pathsep.join([str(older.parent), str(bench.tofu.parent)]))

    def planned(requirement: str = "", **spec: str) -> dict[str, Any]:
        settings = f'terraform {{\n  required_version = "{requirement}"\n}}\n' if requirement else ""
        module = bench.module(source={"files": {"main.tf": settings + MODULE}}, **spec)
        return bench.wait_job(bench.enqueue("PLAN", module))

    assert planned()["result"]["engine_version"] == "1.8.3"
    assert planned(engine_version=">= 1.12")["result"]["engine_version"] == "1.12.6"
    respected = planned(">= 1.12")
    assert (respected["status"], respected["result"]["engine_version"]) == ("SUCCEEDED", "1.12.6"), respected["error"]
    refused = planned("~> 1.9.0")
    assert refused["error"]["code"] == "engine_version"
    assert "requires tofu ~> 1.9.0, but this runner has 1.8.3, 1.12.6" in refused["error"]["message"]
    assert "runyard engines ensure tofu@VERSION" in refused["error"]["hint"]


# The operator's command: it installs any version of 1.x as a script that answers as that version and runs the real one.
FETCH = """#!/bin/sh
version=$(echo "$1@1.12.6" | cut -d@ -f2)
case $version in 1.*) ;; *) echo "no release $version"; exit 1;; esac
folder=$RUNYARD_ENGINE_CACHE/tofu-$version-{platform}
echo "tofu: 40 % Downloading OpenTofu $version"
mkdir -p $folder
printf '#!/bin/sh\\n[ "$1" = version ] && echo "OpenTofu v%s" || exec {tofu} "$@"\\n' $version > $folder/part
chmod 755 $folder/part && mv $folder/part $folder/tofu
"""


def test_a_runner_fetches_the_version_that_a_job_requires(bench: Bench, tmp_path: Path) -> None:
    """By the module's own requirement, which the claim compares, and by the code's, which only the job finds."""
    command = tmp_path / "fetch"
    command.write_text(FETCH.format(platform=f"{system()}-{machine()}", tofu=bench.tofu))
    command.chmod(0o755)
    places = {"PATH": "/usr/bin:/bin", "RUNYARD_ENGINE_CACHE": str(tmp_path / "cache")}
    runner = bench.runner(
        RUNYARD__ENGINE__FETCHCOMMAND=f"{command} {{engine}}", RUNYARD__ENGINE__ADDITIONALBINARYPATHS="",
        RUNYARD__ENGINE__ISOLATION__READONLYPATHS=str(bench.tofu.parent), **places,
    )  # fmt: skip

    def planned(code: str = "", **spec: str) -> dict[str, Any]:
        settings = f'terraform {{\n  required_version = "{code}"\n}}\n' if code else ""
        module = bench.module(source={"files": {"main.tf": settings + MODULE}}, **spec)
        return bench.wait_job(bench.enqueue("PLAN", module))

    first = planned()
    assert first["result"]["engine_version"] == "1.12.6", bench.log_of(first["id"])
    assert planned(engine_version="~> 1.9.1")["result"]["engine_version"] == "1.9.1"
    respected = planned(">= 1.10, != 1.12.6, < 1.12")
    assert respected["result"]["engine_version"] == "1.10.0", respected["error"]
    assert "tofu: 40 % Downloading OpenTofu 1.10.0\n" in bench.log_of(respected["id"])
    again = planned("~> 1.9.1")
    assert "Downloading" not in bench.log_of(again["id"]), "a version is fetched once"
    refused = planned(engine_version=">= 2.0")
    assert (refused["error"]["code"], "no release 2.0.0" in bench.log_of(refused["id"])) == ("engine_fetch", True)
    (process,) = bench.rows("worker_instances", worker_id=runner.worker_id)
    assert process["facts"]["engine_versions"]["terraform"] == ["any on demand"]


def test_an_apply_has_the_provider_versions_of_its_plan(bench: Bench, external_mirror: Path, run_folder: Path) -> None:
    # Its name is short: a provider's socket is in the job's folder, and its path has 107 characters at most.
    home = Path(tempfile.mkdtemp(dir=run_folder))
    mirror = home / "mirror"
    shutil.copytree(external_mirror, mirror)
    config = mirror / "cli.tfrc"
    config.write_text(f'provider_installation {{ filesystem_mirror {{ path = "{mirror}" }} }}')
    worker, shown = bench.register(), "RUNYARD__ENGINE__ISOLATION__READONLYPATHS"
    bench.start_worker(worker, home=home / "home", **{"TF_CLI_CONFIG_FILE": str(config), shown: str(mirror)})
    bench.online(worker)
    code = EXTERNAL.replace('"1.2.0"', '">= 1.2.0"')
    module = bench.module(source={"files": {"main.tf": code, "loot.sh": """echo '{"answer": "done"}'"""}})
    plan = bench.finished("PLAN", module)
    # A newer one appears while people think.
    folder = mirror / "mirror.example.com/hashicorp/external"
    (platform,) = (folder / "1.2.0").iterdir()
    (folder / "1.3.0" / platform.name).mkdir(parents=True)
    shutil.copy2(next(platform.iterdir()), folder / "1.3.0" / platform.name / "terraform-provider-external_v1.3.0")
    assert "external v1.3.0" in bench.log_of(bench.finished("PLAN", module)["id"])
    log = bench.log_of(bench.finished("APPLY", module, plan_job_id=plan["id"])["id"])
    assert ("external v1.2.0" in log, "external v1.3.0" in log) == (True, False)


def test_terraform_plans_applies_a_saved_plan_outputs_and_destroys(bench: Bench) -> None:
    bench.runner(RUNYARD__ENGINE__ADDITIONALBINARYPATHS=folders("terraform"))
    module = bench.module(engine="terraform", inputs={"who": "Mary"}, source={"files": {"main.tf": MODULE}})
    plan = bench.finished("PLAN", module)
    assert plan["plan_summary"]["create"] == 2
    applied = bench.finished("APPLY", module, plan_job_id=plan["id"])
    assert applied["result"]["outputs"]["greeting"]["value"] == "hello Mary"
    assert {each["status"] for each in applied["plan_summary"]["resources"]} == {"SUCCEEDED"}
    assert bench.finished("DESTROY", module)["plan_summary"]["delete"] == 2


def test_pulumi_previews_updates_outputs_and_destroys(bench: Bench, tmp_path: Path) -> None:
    bench.runner(RUNYARD__ENGINE__ADDITIONALBINARYPATHS=folders("pulumi", "pulumi-language-yaml"))
    source = {"files": {"Pulumi.yaml": PROGRAM}}
    module = bench.module(engine="pulumi", inputs={"who": "Joan", "size": 3}, source=source)
    plan = bench.finished("PLAN", module)
    assert plan["plan_summary"] is not None
    applied = bench.finished("APPLY", module, plan_job_id=plan["id"])
    outputs = applied["result"]["outputs"]
    assert outputs["greeting"]["value"] == "hello Joan"
    assert outputs["hidden"]["sensitive"]
    assert "correct-horse-battery" not in bench.log_of(applied["id"])
    first = bench.rpc("state_info", p_module=module)["serial"]
    again = bench.finished("APPLY", module)
    assert again["result"]["outputs"]["greeting"]["value"] == "hello Joan"
    assert bench.rpc("state_info", p_module=module)["serial"] >= first
    assert bench.rpc("state_info", p_module=module)["lock"] is None
    assert bench.finished("OUTPUT", module)["result"]["outputs"]["greeting"]["value"] == "hello Joan"
    assert bench.finished("DRIFT", module)["status"] == "SUCCEEDED"
    bench.finished("DESTROY", module)


def test_pulumi_receives_outputs_of_another_module_as_its_configuration(bench: Bench) -> None:
    bench.runner(RUNYARD__ENGINE__ADDITIONALBINARYPATHS=folders("pulumi", "pulumi-language-yaml"))
    producer = bench.module(engine="pulumi", inputs={"who": "Joan"}, source={"files": {"Pulumi.yaml": PROGRAM}})
    bench.finished("APPLY", producer)
    consumer = bench.module(
        engine="pulumi", source={"files": {"Pulumi.yaml": PROGRAM.replace("hello ${who}", "seen ${who}")}}
    )
    bound = {"p_options": {"bindings": {"who": "greeting"}}}
    bench.rpc("set_dependency", p_consumer=consumer, p_producer=producer, **bound)
    plan = bench.finished("PLAN", consumer)
    applied = bench.finished("APPLY", consumer, plan_job_id=plan["id"])
    assert applied["result"]["outputs"]["greeting"]["value"] == "seen hello Joan"


def test_pulumi_inputs_of_any_shape_arrive_and_are_on_no_command_line(bench: Bench) -> None:
    bench.runner(RUNYARD__ENGINE__ADDITIONALBINARYPATHS=folders("pulumi", "pulumi-language-yaml"))
    value = "--odd 'and' $HOME `quoted`\n\n"
    program = PROGRAM.replace("hello ${who}", "${who}")
    module = bench.module(engine="pulumi", inputs={"who": value}, source={"files": {"Pulumi.yaml": program}})
    applied = bench.finished("APPLY", module)
    assert applied["result"]["outputs"]["greeting"]["value"] == value
    assert "--odd" not in bench.log_of(applied["id"]).partition("pulumi config set who")[2].splitlines()[0]


def test_a_runner_finds_the_engine_that_the_command_line_keeps(bench: Bench, tmp_path: Path) -> None:
    """Started as the quick start says: no setting names the engine, and PATH does not have it."""
    cache = tmp_path / "cache"
    (cache / ENGINES["tofu"].key).mkdir(parents=True)
    plain = {"PATH": "/usr/bin:/bin", "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": "", "RUNYARD_ENGINE_CACHE": str(cache)}
    runner = bench.runner(**plain)
    assert runner.said("no_engine")
    job = bench.enqueue("PLAN", bench.module())
    (cache / ENGINES["tofu"].key / "tofu").symlink_to(bench.tofu)
    assert bench.wait_job(job)["status"] == "SUCCEEDED", bench.log_of(job)
