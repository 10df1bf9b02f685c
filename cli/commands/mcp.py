"""`runyard mcp`: an agent looks and plans, as the member who started it."""

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Any

from cli.command import Here, command, new_app
from cli.errors import CommandError, need_package

app = new_app("A server on standard input and output with which an agent looks and plans (Model Context Protocol).")
# The database writes it into the name of the person who acts: events and the audit log show who did it, and through what.
THROUGH = {"X-Runyard-Through": "agent"}


@command(app, "mcp", calls=("explain_queue", "list_git_deliveries", "list_roles"))
def serve(here: Here) -> None:
    """Serve an agent on standard input and output: it searches, reads runs and plans; it never approves or applies.

    Give it a personal token with the role planner: RUNYARD_TOKEN. It sends folders at or below the one it is started in.
    """
    need_package("mcp", "The Model Context Protocol")
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    from cli.agents.tools import LONGEST, NOTICE, Tools
    from cli.commands.run import plan_folder
    from cli.version import __version__

    here.api.through |= THROUGH
    server = MCPServer("runyard", instructions=f"{serve.__doc__}\n{NOTICE}", version=__version__)
    lock = Lock()

    def answering(tool: Callable[..., Any]) -> Callable[..., str]:
        @wraps(tool)
        def answer(**given: Any) -> str:
            try:
                with lock:
                    text = json.dumps(tool(**given), ensure_ascii=False, indent=1)
            except CommandError as error:
                raise ToolError(str(error)) from error
            cut = f"\n… {len(text) - LONGEST} more characters; ask for a part of it." if len(text) > LONGEST else ""
            return f"{NOTICE}\n{text[:LONGEST]}{cut}"

        return answer

    for tool in Tools(here, Path.cwd(), plan_folder).all():
        server.add_tool(answering(tool), structured_output=False)
    server.run("stdio")
