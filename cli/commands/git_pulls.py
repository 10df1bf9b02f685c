"""`runyard git`: pull requests, commits, and the logins whose comments are commands."""

import re
from typing import Annotated, Any

from typer import Argument, Option

from cli.command import Here, Yes, command
from cli.commands.git import Repository, app, find
from cli.errors import Usage

Number = Annotated[int, Argument(metavar="NUMBER", help="The number of the pull request.")]
OneModule = Annotated[str | None, Option("--module", help="Only this one, by its path.")]
Login = Annotated[str, Argument(metavar="LOGIN", help="The name at the provider.")]
Host = Annotated[str, Option("--host", help="The host of the repositories, such as github.com.")]
COMMIT = re.compile(r"[0-9a-f]{40,64}")


@command(app, "change", calls=("git_change",))
def change(
    here: Here,
    repository: Repository,
    what: Annotated[str, Argument(metavar="CHANGE", help="A whole commit, or #7 or 7 for a pull request.")],
) -> None:
    """Show what a commit or a pull request led to: its modules with their results, counts and jobs."""
    number = what.removeprefix("#")
    if not COMMIT.fullmatch(what) and not number.isdigit():
        raise Usage(f'"{what}" is not a change.', "Write a whole commit, or the number of a pull request.")
    which = {"commit": what} if COMMIT.fullmatch(what) else {"number": int(number)}
    found = here.api.call("git_change", connection=find(here, repository)["id"], **which)
    if here.printer.as_json:
        here.printer.result(found, str)
        return
    columns = ("path", "result", "to_add", "to_change", "to_destroy", "job", "problem")
    here.printer.rows(found["rows"], columns, found["report"]["description"])


@command(app, "plan", calls=("plan_pull_request",))
def plan(
    here: Here,
    repository: Repository,
    number: Number,
    module: OneModule = None,
    commit: Annotated[str | None, Option("--commit", help="Of a fork: the whole commit that you have read.")] = None,
) -> None:
    """Plan a pull request again; of a fork the one commit that is named."""
    which = {"connection": find(here, repository)["id"], "number": number, "commit": commit}
    here.do("plan_pull_request", "Job {number}: `runyard jobs show {number}`", **which, module=_module(here, module))


@command(app, "apply", calls=("apply_pull_request",))
def apply(here: Here, repository: Repository, number: Number, module: OneModule = None) -> None:
    """Apply a pull request before its merge, where its modules are set so; it keeps them locked until it is closed."""
    which = {"connection": find(here, repository)["id"], "number": number}
    jobs: list[dict[str, Any]] = here.api.call("apply_pull_request", **which, module=_module(here, module))
    here.printer.rows(jobs, ("number", "module_path", "status"), "Nothing to apply.")


@command(app, "logins", calls=("list_git_logins",))
def logins(here: Here) -> None:
    """List the logins whose comments are commands, and whose they are."""
    rows = here.api.call("list_git_logins", org=here.org.id)
    here.printer.rows(rows, ("host", "login", "email", "created_by_label"), "No logins are linked.")


@command(app, "link", calls=("link_git_login",))
def link(
    here: Here,
    member: Annotated[str, Argument(metavar="MEMBER", help="Their email address.")],
    login: Login,
    host: Host = "github.com",
) -> None:
    """Do commands in a login's comments as this member. Check that the login is theirs: nobody else does."""
    user = here.org.member(member)["user_id"]
    made = here.api.call("link_git_login", org=here.org.id, user=user, host=host, login=login)
    here.printer.result(made, lambda row: f"{row['login']} at {row['host']} is {member}")


@command(app, "link-me", calls=("request_git_link",))
def link_me(here: Here, login: Login, host: Host = "github.com") -> None:
    """Print the comment by which you prove that a login is yours: no admin is needed."""
    here.do(
        "request_git_link",
        "As {login}, comment on a pull request of a connected repository: {comment}",
        org=here.org.id,
        host=host,
        login=login,
    )


@command(app, "unlink", calls=("unlink_git_login",))
def unlink(here: Here, login: Login, host: Host = "github.com") -> None:
    """End the link of a login."""
    here.do("unlink_git_login", "Unlinked {login} at {host}", org=here.org.id, host=host, login=login)


@command(app, "apps", calls=("list_git_apps",))
def apps(here: Here) -> None:
    """List the GitHub Apps of the organisation; Settings → Connections → Git creates one."""
    rows = here.api.call("list_git_apps", org=here.org.id)
    here.printer.rows(rows, ("id", "slug", "html_url", "repositories", "created_by_label"), "No GitHub Apps.")


@command(app, "remove-app", calls=("remove_git_app",))
def remove_app(here: Here, which: Annotated[str, Argument(metavar="APP", help="Its id.")], yes: Yes = False) -> None:
    """Remove a GitHub App with its key; delete it at GitHub, too."""
    here.confirm(f"Remove the GitHub App {which}?", yes)
    here.do("remove_git_app", "Removed {slug}; delete it at {html_url}, too", app=which)


def _module(here: Here, path: str | None) -> str | None:
    return None if path is None else str(here.org.module(path)["id"])
