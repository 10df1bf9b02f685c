"""Policy sets that are a command: the file that names it, as forms and terminals write it, and the cost that it may leave."""

import json
import shlex
from collections.abc import Mapping

COMMAND_FILE = "command.json"


def command_file(line: str, *, has_network: bool) -> dict[str, str]:
    """Return the file of a command that was typed as a line; a ValueError for a quote without an end."""
    return {COMMAND_FILE: json.dumps({"argv": shlex.split(line), "network": has_network})}


def read_command(text: str) -> tuple[str, bool]:
    """Return the line that a file was written from, and whether the command may reach a network."""
    given = json.loads(text)
    return shlex.join(given["argv"]), given.get("network") is True


def cost_words(cost: Mapping[str, float]) -> str:
    """Describe a cost: before, after and the difference."""
    return "{monthly_before:,.2f} → {monthly_after:,.2f} a month ({monthly_delta:+,.2f})".format_map(cost)
