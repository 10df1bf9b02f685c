"""A private directory and a clean environment."""

import asyncio
import os
from pathlib import Path

from worker.attempt.variables import JobVariables, Keys, texts_in
from worker.attempt.workspace import Workspace
from worker.children.environment import host_variables, job_variables, sensitive_values
from worker.children.users import COOKIE_VARIABLE
from worker.errors import WorkerError
from worker.fitness import no_directory
from worker.settings.model import Settings
from worker.steps.engine import check_engine
from worker.steps.identity import give_identities
from worker.steps.references import read_references


async def prepare(space: Workspace) -> None:
    """Create the directory, check that the engine exists, and build the environment."""
    await make_folders(space)
    await check_engine(space)
    await take_variables(space)
    space.env = await build_environment(space)
    await give_identities(space)
    space.log.redactor.add(*sensitive_values(space.env), *space.backend.secrets)
    runner = space.context.settings.runner.instance
    space.say(
        f"Job {space.job.number}, attempt {space.job.attempt}, on {runner}: {space.job.type} of {space.spec.module.path}"
    )


async def take_variables(space: Workspace) -> None:
    """Fetch the job's variables and open sealed ones; the log masks secrets before anything uses them."""
    given = await space.context.server.variables(space.ref)
    if any(each.key_id for each in given):
        keys = await asyncio.to_thread(Keys.read, space.context.settings.sealing.key_files)
        space.keys, opened = keys.open_all(given)
        given = await read_references(space, opened)
        await asyncio.to_thread(space.log.hide, texts_in([each.value for each in given if each.key_id]))
    space.variables = JobVariables.of(given)
    space.log.redactor.add(*space.variables.secrets())


async def make_folders(space: Workspace) -> None:
    """Make the job's directory."""
    if space.context.isolation and (warning := space.context.isolation.warning):
        space.say(warning)
    try:
        for folder in (space.root, space.root / "source", space.root / "tmp", space.root / "home"):
            folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise no_directory(error) from error


async def build_environment(space: Workspace) -> dict[str, str]:
    """Allow-listed host variables, then the job's own, then what the runner decides itself."""
    context, module = space.context, space.spec.module
    url = context.settings.server.url
    built_in = {
        "PATH": space.env.get("PATH", context.finder.path),
        "TMPDIR": str(context.isolation.temporary(space.root) if context.isolation else space.root / "tmp"),
        COOKIE_VARIABLE: space.cookie,
        "RUNYARD_GROUP_PATH": space.job.group_path or module.group_path,
        "RUNYARD_MODULE_PATH": space.job.module_path or module.path,
        "RUNYARD_ENDPOINT": url,
        "RUNYARD_JOB_ID": str(space.job.id),
        "RUNYARD_JOB_ATTEMPT": str(space.job.attempt),
        "RUNYARD_JOB_TYPE": space.job.type.value,
        "TF_IN_AUTOMATION": "1",
        "TF_INPUT": "0",
        "CHECKPOINT_DISABLE": "1",
        "TF_CLI_CONFIG_FILE": str(write_cli_config(space)),
        **space.backend.variables(),
        **await server_token(space, context.settings.server.discovery_host),
    }
    host = host_variables(context.environ, context.settings.engine.pass_environment)
    return {**host, **job_variables(space.variables.env), **built_in}


def write_cli_config(space: Workspace) -> Path:
    """Give the engine a configuration file of its own: a copy of the operator's, or an empty one."""
    target = space.root / "cli.tfrc"
    target.write_text(f"{operators_config(space)}\n{served_here(space.context.settings)}", encoding="utf-8")
    os.chmod(target, 0o600)  # noqa: PTH101
    return target


def operators_config(space: Workspace) -> str:
    """Read the file that the operator's variable names; a file that cannot be read is ignored."""
    own = space.context.environ.get("TF_CLI_CONFIG_FILE")
    try:
        return Path(own).read_text(encoding="utf-8") if own else ""
    except (OSError, UnicodeDecodeError) as error:
        space.say(f"TF_CLI_CONFIG_FILE of the runner cannot be read and is ignored: {error}")
        return ""


def served_here(settings: Settings) -> str:
    """Configure the engine with what the project serves at its host: hosted Supabase cannot answer service discovery itself."""
    services = f"{settings.server.url}/functions/v1/terraform/api/v2/"
    named = "\n".join(f'    "{name}" = "{services}"' for name in ("tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2"))
    return f'host "{settings.server.discovery_host}" {{\n  services = {{\n{named}\n  }}\n}}\n'


async def server_token(space: Workspace, host: str) -> dict[str, str]:
    """A token that reads this job's own, under the name by which engines look for it."""
    # Dots become one underscore and hyphens two, as Terraform reads it.
    name = f"TF_TOKEN_{host.replace('-', '__').replace('.', '_').replace(':', '_')}"
    try:
        token = await space.context.server.engine_token(space.ref)
    except WorkerError as error:
        space.say(f"No token for {host}: {error.message}")
        return {}
    space.log.redactor.add(token)
    return {name: token}
