"""`runyard profiles`: logins to several projects."""

import os
from typing import Annotated

from typer import Argument, Option

from cli.client.profiles import profiles_of
from cli.command import new_app
from cli.output import Printer, say

app = new_app("Logins to several projects: list them, choose one.")
COLUMNS = ("name", "current", "email", "url", "organization")


@app.command("list")
def list_profiles(as_json: Annotated[bool, Option("--json", help="For programs.")] = False) -> None:
    """List the profiles; tokens are not shown."""
    profiles = profiles_of(os.environ)
    found = [profiles.get(name) for name in profiles.names()]
    rows = [
        {
            "name": each.name,
            "current": each.name == profiles.current(),
            "email": each.email,
            "url": each.url,
            "organization": each.organization,
        }
        for each in found
    ]
    Printer(as_json).rows(rows, COLUMNS, "No profiles. `runyard login` creates one.")


@app.command("use")
def use(name: Annotated[str, Argument(help="The profile's name.")]) -> None:
    """Use another profile from now on."""
    profile = profiles_of(os.environ).use(name)
    say(f"Using {profile.name}: {profile.email} at {profile.url}.")
