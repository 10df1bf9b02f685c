"""`runyard export`, `diff` and `apply`: an organisation as one file, runyard.yaml."""

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from cli.command import Here, Yes, command, new_app
from cli.manifest import read_manifest, write_manifest
from cli.output import say

app = new_app("An organisation as one file.")
File = Annotated[Path, Argument(metavar="FILE", help="A manifest, such as runyard.yaml.")]
Prune = Annotated[bool, Option("--prune", help="Remove what its kinds have beside it.")]
SIGNS = {"create": "+", "update": "~", "remove": "-"}
LONGEST_VALUE = 60


@command(app, "export", calls=("export_manifest",))
def export(
    here: Here, kinds: Annotated[list[str] | None, Argument(metavar="KIND...", help="All kinds without.")] = None
) -> None:
    """Print the organisation as a manifest: what people set up, with names and without secrets in the clear."""
    found = here.api.call("export_manifest", org=here.org.id, kinds=kinds or None)
    if here.printer.as_json:
        here.printer.document(found)
    else:
        print(write_manifest(found), end="")


@command(app, "diff", calls=("apply_manifest",))
def diff(here: Here, file: File, prune: Prune = False) -> None:
    """Show what `apply` would change, or why it would be refused; nothing changes."""
    _show(here, _apply(here, read_manifest(file), prune=prune, is_dry=True))


@command(app, "apply", calls=("apply_manifest",))
def apply(here: Here, file: File, prune: Prune = False, yes: Yes = False) -> None:
    """Make the organisation as a manifest has it: all of it, or nothing where one change is refused."""
    manifest = read_manifest(file)
    if prune and not yes:
        gone = [each for each in _apply(here, manifest, prune=True, is_dry=True)["changes"] if each["act"] == "remove"]
        say("\n".join(map(_line, gone)))
        here.confirm(f"Remove these {len(gone)}?", not gone)
    _show(here, _apply(here, manifest, prune=prune, is_dry=False))


def _apply(here: Here, manifest: Any, *, prune: bool, is_dry: bool) -> dict[str, Any]:
    return dict(here.api.call("apply_manifest", org=here.org.id, manifest=manifest, prune=prune, is_dry=is_dry))


def _show(here: Here, answer: dict[str, Any]) -> None:
    here.printer.result(answer, lambda _: "\n".join(map(_line, answer["changes"])) or "No changes.")
    if answer["left"]:
        say(f"{len(answer['left'])} more are not in the file; --prune would remove them.")


def _line(change: dict[str, Any]) -> str:
    fields = [
        f"{name} {_shown(values['from'])} → {_shown(values['to'])}" for name, values in sorted(change["fields"].items())
    ]
    return f"{SIGNS[change['act']]} {change['kind']} {change['name']}{': ' if fields else ''}{', '.join(fields)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
