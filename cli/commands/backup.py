"""`runyard backup` and `runyard restore`: the embedded stack in one encrypted file."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cli.command import new_app, read_text
from cli.commands.local import stack_control
from cli.errors import Usage

app = new_app("The embedded stack in one encrypted file.")
VARIABLE = "RUNYARD_BACKUP_PASSPHRASE"
SHORTEST = 12
PassphraseFile = Annotated[
    Path | None, Option("--passphrase-file", help=f"Its first line; else {VARIABLE}, else it is requested.")
]


@app.command("backup")
def backup(
    file: Annotated[Path, Argument(help="A file that does not exist yet.")], passphrase_file: PassphraseFile = None
) -> None:
    """Write database, keys and secrets into one encrypted file, while everything keeps running."""
    passphrase = _passphrase(passphrase_file, is_new=True)
    if len(passphrase) < SHORTEST:
        raise Usage(f"The passphrase is shorter than {SHORTEST} characters.", "The file contains every secret.")
    with stack_control() as control:
        size = control.back_up(file.absolute(), passphrase)
        typer.echo(f"{file}: {size / 1024**2:,.1f} MiB. Without its passphrase nobody can restore it.")


@app.command("restore")
def restore(
    file: Annotated[Path, Argument(help="A file that `runyard backup` wrote.")], passphrase_file: PassphraseFile = None
) -> None:
    """Make the installation of a backup in a state folder that has none; RUNYARD_HOME names the folder."""
    passphrase = _passphrase(passphrase_file, is_new=False)
    with stack_control() as control:
        restored = control.restore(file.absolute(), passphrase)
        typer.echo(f"Restored the backup of {restored.created_at} into {control.home()}. `runyard up` starts it.")


def _passphrase(file: Path | None, *, is_new: bool) -> str:
    if file is not None:
        return read_text(file).split("\n", 1)[0]
    given = os.environ.get(VARIABLE, "")
    if given or sys.stdin.isatty():
        return given or str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=is_new))
    raise Usage(
        "The passphrase is missing, and this is not interactive.", f"Give --passphrase-file, or set {VARIABLE}."
    )
