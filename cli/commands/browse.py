"""`runyard open`: the page in the browser."""

from typing import Annotated

import typer
from typer import Argument, Option

from cli.command import Here, command, new_app
from cli.errors import Missing, Usage

app = new_app("Open a page of the dashboard.")
KINDS = ("job", "module", "runner")


@command(app, "open")
def open_page(
    here: Here,
    kind: Annotated[str | None, Argument(help="job, module or runner; the dashboard if it is left out.")] = None,
    name: Annotated[str | None, Argument(help="The job's number, the module's path, the runner's name.")] = None,
    show: Annotated[bool, Option("--print", help="Print the address instead.")] = False,
) -> None:
    """Open a job, module or runner in the browser."""
    base = here.identity[1].dashboard
    if not base:
        raise Missing("Where is the dashboard?", "Set RUNYARD_DASHBOARD_URL, or sign in with --dashboard.")
    url = f"{base}/o/{here.org.slug}/{_path(here, kind, name)}" if kind else f"{base}/dashboard"
    if show or here.printer.as_json:
        here.printer.result({"url": url}, lambda said: str(said["url"]))
    else:
        typer.launch(url)


def _path(here: Here, kind: str, name: str | None) -> str:
    if kind not in KINDS or name is None:
        raise Usage("Which page?", f"runyard open {'|'.join(KINDS)} NAME")
    if kind == "job":
        return f"jobs/{here.org.job(name)['number']}"
    if kind == "module":
        return f"modules?module={here.org.module(name)['path']}"
    return f"runners/{here.org.runner(name)['id']}"
