"""`runyard docs`: the pages that are written by programs."""

import os
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cli.command import new_app
from cli.errors import Missing, need_package
from cli.folders import PROJECT

app = new_app("Write the documentation pages that are generated from the code and the database.")
Folder = Annotated[Path, Option("--to", help="Where to write.")]


@app.command("reference")
def reference(
    url: Annotated[str | None, Argument(help="A database with every migration; SUPABASE_DB_URL otherwise.")] = None,
    folder: Folder = PROJECT / "docs" / "reference",
) -> None:
    """Write the pages on statuses and permissions."""
    need_package("psycopg", "PostgreSQL's client")
    from cli.docs.reference import write

    where = url or os.environ.get("SUPABASE_DB_URL")
    if not where:
        raise Missing(
            "Which database?", "Name it, or set SUPABASE_DB_URL: `runyard env` prints that of the local stack."
        )
    write(where, folder)


@app.command("commands")
def commands(folder: Folder = PROJECT / "docs" / "reference") -> None:
    """Write the table of pages, commands and public functions."""
    from cli.docs.commands import page

    (folder / "commands.md").write_text(page(), encoding="utf-8")
