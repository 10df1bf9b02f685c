"""`runyard issuer`: the project as an OIDC issuer that clouds trust."""

import json
from pathlib import Path
from typing import Annotated

from typer import Option

from cli.client.issuer import DISCOVERY, KEYS, project_documents
from cli.command import Here, command, new_app

app = new_app("The project as an OIDC issuer that clouds trust.")


@command(app, "export")
def export(
    here: Here, folder: Annotated[Path | None, Option("--folder", help="Write two files below it instead.")] = None
) -> None:
    """Print the discovery document and the public keys, for a static web server that clouds can reach."""
    found = project_documents(here.api)
    if folder is None:
        here.printer.document({"discovery": found.discovery, "jwks": found.keys})
        return
    for name, document in ((DISCOVERY, found.discovery), (KEYS, found.keys)):
        file = folder / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    here.printer.result({"issuer": found.issuer, "folder": str(folder)}, lambda _: f"Serve {folder} at {found.issuer}/")
