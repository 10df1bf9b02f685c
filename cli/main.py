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
    "profiles": ("cli.commands.profiles", "Logins to several projects: list them, choose one."),
    "run": ("cli.commands.run", "Queue a plan, apply, destroy, drift check or output, and follow it."),
    "jobs": ("cli.commands.jobs", "List, show, follow, approve, cancel and retry jobs."),
    "events": ("cli.commands.events", "What happened to runners and jobs, searched."),
    "modules": ("cli.commands.modules", "Modules, their files and outputs."),
    "state": ("cli.commands.state", "The state of a module: import, read and export it."),
    "groups": ("cli.commands.groups", "The groups of modules; plan, apply or destroy all of one in order."),
    "dependencies": ("cli.commands.dependencies", "Which module depends on which, and what it takes of it."),
    "graph": ("cli.commands.graph", "Draw which module depends on which, as a tree."),
    "git": ("cli.commands.git_pulls", "Repositories whose pushes plan modules."),
    "schedules": ("cli.commands.schedules", "Jobs that start on a schedule."),
    "triggers": ("cli.commands.triggers", "Pushes, pull requests and schedules that start jobs."),
    "notifications": ("cli.commands.notifications", "Which events go where, and what became of each message."),
    "runners": ("cli.commands.runners", "Register, list and look after the runners of an organisation."),
    "tokens": ("cli.commands.tokens", "The tokens of a runner."),
    "personal-tokens": ("cli.commands.personal_tokens", "Tokens with which your own programs act as you."),
    "accounts": ("cli.commands.accounts", "Service accounts: identities that runners and pipelines sign in with."),
    "identities": ("cli.commands.identities", "Identities of jobs in a cloud, without a stored key."),
    "issuer": ("cli.commands.issuer", "The project as an OIDC issuer that clouds trust."),
    "releases": ("cli.commands.releases", "Published versions of the runner."),
    "variables": ("cli.commands.variables", "Inputs, environment and files of jobs."),
    "rollouts": ("cli.commands.rollouts", "Updating the outdated runners in waves."),
    "cloud": ("cli.commands.cloud", "Cloud identities, and runners that are deployed with them."),
    "members": ("cli.commands.members", "People with access, and what they can do."),
    "access": ("cli.commands.access", "Who may do what at a group or module: list, grant, revoke, explain."),
    "teams": ("cli.commands.teams", "Teams: members that get roles together."),
    "sign-in": ("cli.commands.sign_in", "Signing in with the company's account: provider, domains, groups."),
    "roles": ("cli.commands.roles", "Roles: what each may do, and your own."),
    "orgs": ("cli.commands.orgs", "Your organisations."),
    "maintenance": ("cli.commands.maintenance", "Keep jobs waiting for a while."),
    "shared-runners": ("cli.commands.shared_runners", "The installation's own runners, from a file."),
    "installation": ("cli.commands.installation", "The whole installation, for its operator."),
    "doctor": ("cli.commands.doctor", "Check this program, the login and the project."),
    "mcp": ("cli.commands.mcp", "Serve an agent that looks and plans for you (Model Context Protocol)."),
    "open": ("cli.commands.browse", "Open a job, module or runner in the browser."),
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
    "engines": ("cli.commands.engines", "Engine binaries: found, fetched or built."),
    "docs": ("cli.commands.docs", "Write the documentation pages that are generated from the code and the database."),
}
CODES = "Exit codes: " + " · ".join(f"{code.value} {text}" for code, text in EXPLANATIONS.items())


class LazyGroup(TyperGroup):
    """Knows every command's name and sentence, and imports the one that is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command, as the help lists them."""
        return list(LAZY)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command; the others are never imported."""
        return load(cmd_name) if cmd_name in LAZY else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in LAZY.items()])


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
