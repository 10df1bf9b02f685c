"""Another host with the API that `cloud {}` speaks, as far as an engine needs it to read a state: one workspace, whatever its name."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "old.atlasv1.token"


@dataclass
class OtherHost:
    """The state that it keeps, and the requests that changed something or tried to."""

    state: bytes
    url: str = ""
    changes: list[str] = field(default_factory=list)

    def cli_config(self, hostname: str) -> str:
        """A CLI configuration in which the host has this name, and a token."""
        services = "".join(
            f'    "{name}" = "{self.url}/api/v2/"\n' for name in ("tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2")
        )
        return (
            f'host "{hostname}" {{\n  services = {{\n{services}  }}\n}}\n'
            f'credentials "{hostname}" {{\n  token = "{TOKEN}"\n}}\n'
        )

    def answer(self, method: str, path: str) -> Any:
        """The document at a path, the state's bytes, or nothing."""
        parts = path.split("?", maxsplit=1)[0].removeprefix("/api/v2/").split("/")
        if method != "GET":
            self.changes.append(f"{method} {path}")
        match method, parts:
            case "GET", ["ping"]:
                return b""
            case "GET", ["organizations", name, "entitlement-set"]:
                return {
                    "id": name,
                    "type": "entitlement-sets",
                    "attributes": {"operations": True, "state-storage": True},
                }
            case "GET", ["organizations", organization, "workspaces", name]:
                return self._workspace(organization, name)
            case "GET", ["workspaces", "ws-old", "current-state-version"]:
                address = {"hosted-state-download-url": f"{self.url}/api/v2/state"}
                return {"id": "sv-old", "type": "state-versions", "attributes": address}
            case "GET", ["state"]:
                return self.state
            case "POST", ["workspaces", "ws-old", "actions", "lock" | "unlock"]:
                return self._workspace("", "")
            case _:
                return None

    def _workspace(self, organization: str, name: str) -> dict[str, Any]:
        attributes = {
            "name": name, "execution-mode": "remote", "operations": True, "terraform-version": "latest", "locked": False,
            "permissions": {"can-queue-run": True, "can-update": True, "can-lock": True, "can-unlock": True},
        }  # fmt: skip
        related = {"organization": {"data": {"type": "organizations", "id": organization}}}
        return {"id": "ws-old", "type": "workspaces", "attributes": attributes, "relationships": related}


@contextmanager
def run_other_host(state: bytes) -> Iterator[OtherHost]:
    """Listen on a port of its own until the end."""
    host = OtherHost(state)

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            is_known = self.path.endswith("/state") or self.headers.get("authorization") == f"Bearer {TOKEN}"
            found = host.answer(self.command, self.path) if is_known else None
            body = found if isinstance(found, bytes) else json.dumps({"data": found}).encode()
            self.send_response(404 if found is None else 200 if body else 204)
            self.send_header("content-type", "application/vnd.api+json")
            self.send_header("tfp-api-version", "2.6")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = reply  # noqa: N815  (http.server looks for these names)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    host.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()
