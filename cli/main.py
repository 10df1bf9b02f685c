"""`runyard`: the program. A group of commands is imported when it is used, so that each begins at once."""

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from cli.errors import EXPLANATIONS, CommandError, ExitCode
from cli.light import start_light
from cli.output import say

# name: (module, what it does). A module's command of the same name is a command of its own, not a group.
LAZY: dict[str, tuple[str, str]] = {
    "login": ("cli.commands.login", "Sign in to a project, and keep the login."),
    "confirm-login": ("cli.commands.login", "Confirm the code of a program that signs in on another machine."),
    "logout": ("cli.commands.login", "End a login, here and at the project."),
    "whoami": ("cli.commands.login", "Show who is signed in, where, and with which roles."),
    "profiles": ("cli.commands.profiles", "List logins to several projects, and choose one."),
    "personal-tokens": ("cli.commands.personal_tokens", "Make tokens with which your own programs act as you."),
    "run": ("cli.commands.run", "Queue a plan, apply, destroy, drift check or output, and follow it."),
    "jobs": ("cli.commands.jobs", "List, show, follow, approve, cancel and retry jobs."),
    "record": (
        "cli.commands.record",
        "Download the signed records of changes, and verify them with public keys alone.",
    ),
    "events": ("cli.commands.events", "Search what happened to runners and jobs."),
    "modules": ("cli.commands.modules", "List, create and change modules; read their files and outputs."),
    "groups": ("cli.commands.groups", "List groups of modules; plan, apply or destroy all of one in order."),
    "export": ("cli.commands.manifest", "Print the organisation as a file, runyard.yaml."),
    "diff": ("cli.commands.manifest", "Show what `apply` would change."),
    "apply": ("cli.commands.manifest", "Make the organisation as a file has it, all of it or nothing."),
    "state": ("cli.commands.state", "Import, read and export the state of a module."),
    "variables": ("cli.commands.variables", "Set the inputs, environment and files of jobs."),
    "dependencies": ("cli.commands.dependencies", "List the dependencies of a module, with the outputs that it takes."),
    "graph": ("cli.commands.graph", "Draw which module depends on which, as a tree."),
    "git": ("cli.commands.git_pulls", "Connect repositories whose pushes plan modules."),
    "schedules": ("cli.commands.schedules", "Start jobs on a schedule."),
    "triggers": ("cli.commands.triggers", "List the pushes, pull requests and schedules that start jobs."),
    "notifications": (
        "cli.commands.notifications",
        "Choose which events go where, and see what became of each message.",
    ),
    "runners": ("cli.commands.runners", "Register, list and look after the runners of an organisation."),
    "tokens": ("cli.commands.tokens", "Issue and revoke the tokens of a runner."),
    "releases": ("cli.commands.releases", "List the published versions of the runner."),
    "rollouts": ("cli.commands.rollouts", "Update outdated runners in waves."),
    "cloud": ("cli.commands.cloud", "Deploy runners in a cloud, and the identities for it."),
    "shared-runners": ("cli.commands.shared_runners", "Manage the installation's own runners, from a file."),
    "accounts": ("cli.commands.accounts", "Manage service accounts, with which runners and pipelines sign in."),
    "policies": ("cli.commands.policies", "Attach rules that plans must pass, and override their checks."),
    "identities": ("cli.commands.identities", "Let jobs sign in to a cloud without a stored key."),
    "issuer": ("cli.commands.issuer", "Export what a web server shows clouds that trust the project as an issuer."),
    "members": ("cli.commands.members", "Invite people, and choose what they can do."),
    "teams": ("cli.commands.teams", "Make teams, whose members get roles together."),
    "sign-in": ("cli.commands.sign_in", "Set up the company's account for signing in: provider, domains, groups."),
    "roles": ("cli.commands.roles", "List roles and what each may do, and make your own."),
    "access": ("cli.commands.access", "List, grant, revoke and explain rights at a group or module."),
    "orgs": ("cli.commands.orgs", "List, create and change your organisations."),
    "maintenance": ("cli.commands.maintenance", "Keep jobs waiting for a while."),
    "installation": ("cli.commands.installation", "Look after the whole installation, as its operator."),
    "doctor": ("cli.commands.doctor", "Check this program, the login and the project."),
    "open": ("cli.commands.browse", "Open a job, module or runner in the browser."),
    "mcp": ("cli.commands.mcp", "Serve an agent that looks and plans for you (Model Context Protocol)."),
    "up": ("cli.commands.local", "Start the embedded stack with the dashboard; Ctrl-C stops it."),
    "down": ("cli.commands.local", "Stop what `up` started, from any terminal."),
    "status": ("cli.commands.local", "Show addresses, keys and the health of each part."),
    "env": ("cli.commands.local", 'Print the stack\'s address and keys as exports: eval "$(runyard env)".'),
    "mail": ("cli.commands.local", "Show the mails that the embedded stack kept instead of sending."),
    "migrate": ("cli.commands.local", "Apply new migrations to the embedded database."),
    "backup": ("cli.commands.backup", "Write the embedded stack into one encrypted file while it runs."),
    "restore": ("cli.commands.backup", "Restore the embedded stack from a backup into an empty state folder."),
    "reset": ("cli.commands.local", "Delete the embedded database, secrets and logs."),
    "dashboard": ("cli.commands.local", "Serve the dashboard alone, for the project that SUPABASE_URL names."),
    "engines": ("cli.commands.engines", "Find, fetch or build engine binaries."),
}
# The command with which each section of the help begins.
SECTIONS = {
    "login": "Your login",
    "run": "Jobs",
    "modules": "Modules and groups",
    "git": "What starts jobs, and what tells you",
    "runners": "Runners",
    "accounts": "Identities and secrets",
    "members": "People and organisations",
    "installation": "The installation",
    "doctor": "This machine",
    "up": "The embedded stack",
    "engines": "Builds",
}
CODES = "Exit codes: " + " · ".join(f"{code.value} {text}" for code, text in EXPLANATIONS.items())


class LazyGroup(TyperGroup):
    """Knows every command's name and sentence, and imports the one that is used."""

    def __init__(self, **attributes: Any) -> None:
        """Name the commands in the order of the help; the nearest of them are offered for one that does not exist."""
        super().__init__(**attributes)
        self.commands = dict[str, Any](dict.fromkeys(LAZY))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command; the others are never imported."""
        return load(cmd_name) if cmd_name in LAZY else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list without importing anything."""
        found: dict[str, list[tuple[str, str]]] = {}
        section = ""
        for name, (_, text) in LAZY.items():
            section = SECTIONS.get(name, section)
            found.setdefault(section, []).append((name, text))
        for title, commands in found.items():
            with formatter.section(title):
                formatter.write_dl(commands)


start_light()


def load(name: str) -> Any:
    """Import one command or group of commands."""
    made = typer.main.get_group(import_module(LAZY[name][0]).app)
    made.name = name
    alone = made.commands.get(name)
    return alone if alone is not None else made


cli = typer.Typer(
    name="runyard",
    cls=LazyGroup,
    help="Terraform, OpenTofu and Pulumi on runners that you own: run, watch and administer.",
    epilog=CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from cli.version import __version__

        typer.echo(__version__)
        raise typer.Exit


@cli.callback()
def options(
    version: bool = typer.Option(False, "--version", help="Show the version.", is_eager=True, callback=_show_version),
) -> None:
    """Terraform, OpenTofu and Pulumi on runners that you own: run, watch and administer."""


def main() -> None:
    """Run the program; a problem a person can act on is a sentence, not a traceback."""
    try:
        cli(prog_name="runyard")
    except CommandError as error:
        say(f"error: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # Anyone who read has enough: `runyard jobs list | head`.
        sys.stderr.close()
        sys.exit(ExitCode.DONE)
