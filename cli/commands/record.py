"""`runyard record`: what each change was and what led to it, signed."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from cli.client.issuer import RECORD_KEYS, project_document
from cli.command import Here, ModuleName, command, from_json, new_app
from cli.errors import Refused, Usage
from wire.records import BadRecord, Record, check_chain, read_envelopes, read_keys, verify

app = new_app("Signed records of changes: what was changed, and what led to it.")
MOST_BYTES = 256 * 1024 * 1024
LONGEST_SECONDS = 60
PAGE = "Run → Record"


@command(app, "download", calls=("change_record",), page=f"{PAGE} → Download")
def download(here: Here, run: Annotated[str, Argument(metavar="RUN", help="The number of a run.")]) -> None:
    """Print the signed record of a run that changed a state."""
    job = here.org.job(run)["id"]
    [record] = _signed(lambda: [here.api.call("change_record", job=job)])
    here.printer.document(record["envelope"])


@command(app, "export", calls=("list_change_records",))
def export(here: Here, module: ModuleName) -> None:
    """Print all signed records of a module, oldest first, one in each line."""
    found, after = here.org.module(module)["id"], 0
    while page := _signed(lambda: here.api.call("list_change_records", module=found, after=after)):  # noqa: B023
        print("\n".join(json.dumps(record["envelope"]) for record in page))
        after = page[-1]["sequence"]


@command(app, "keys")
def keys(here: Here) -> None:
    """Print the public keys that records are verified with; keep them where nobody of the project can change them."""
    here.printer.document(project_document(here.api, RECORD_KEYS))


@command(app, "verify", page=f"{PAGE} → Verify it yourself")
def verify_file(
    here: Here,
    file: Annotated[Path, Argument(metavar="FILE", help="A record, or a module's records, one in each line.")],
    keys_file: Annotated[
        Path | None, Option("--keys", help="Public keys; without it they come from the project you are signed in to.")
    ] = None,
) -> None:
    """Verify signatures, and that no record of the chain is missing. With --keys it needs no login and no connection."""
    public = from_json(_text(keys_file), str(keys_file)) if keys_file else project_document(here.api, RECORD_KEYS)
    try:
        known = read_keys(public)
        records = [verify(envelope, known) for envelope in read_envelopes(_text(file))]
        if len(records) != 1:
            check_chain(records)
    except BadRecord as error:
        raise Refused(f"{file}: {error}", "docs/records.md explains each of these.") from error
    here.printer.result([vars(each) for each in records], lambda _: _words(records))


def _signed(ask: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Ask until all records are signed: the newest one may still wait."""
    until = time.monotonic() + LONGEST_SECONDS
    while True:
        found = ask()
        if all(record["envelope"] for record in found):
            return found
        if time.monotonic() > until:
            raise Refused("A record is not signed yet.", "`runyard doctor` finds out whether the project has keys.")
        time.sleep(1)


def _words(records: list[Record]) -> str:
    first, last = (choose(records, key=lambda each: each.finished_at) for choose in (min, max))
    if len(records) == 1:
        place = "the first of its chain" if first.sequence == 1 else f"record {first.sequence} of its chain"
        return f"Signed by {first.key_id}: {first.operation} of {first.path} ({first.run}), {first.status}; {place}."
    return f"Signed, chain complete since {first.finished_at[:10]}: {len(records)} records, the last of {last.run}."


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise Usage(f"{file} has more than 256 MiB.", "Export one module at a time.")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(
            f"{file} cannot be read: {error}", "Name a file of `runyard record download` or `export`."
        ) from error
