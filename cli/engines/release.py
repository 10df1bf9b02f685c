"""Fetches an official release and checks it, where the network answers."""

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import httpx

from cli.engines.catalog import Engine, EngineError
from cli.engines.progress import Reporter

# A closed network must not cost a newcomer more than this before the build begins.
TIMEOUT = httpx.Timeout(20, connect=4)


def fetch(engine: Engine, folder: Path, report: Reporter, client: httpx.Client | None = None) -> Path:
    """Return the released binary, or raise EngineError when it cannot be had or is not what it says."""
    report.say(1, f"Looking for {engine.title} {engine.version} among the official releases")
    try:
        with client or httpx.Client(timeout=TIMEOUT, follow_redirects=True) as http:
            wanted = wanted_sum(engine, http)
            body = download(engine, http, report)
    except httpx.HTTPError as error:
        raise EngineError(f"the official release cannot be reached: {error}") from error
    found = hashlib.sha256(body).hexdigest()
    if found != wanted:
        raise EngineError(f"{engine.archive_url()} has SHA-256 {found}, its checksum file says {wanted}")
    made = folder / engine.name
    made.write_bytes(unpack(engine, body))
    return made


def wanted_sum(engine: Engine, http: httpx.Client) -> str:
    """Return the archive's checksum from the release's own list."""
    name = engine.archive_url().rsplit("/", 1)[1]
    response = http.get(engine.sums_url()).raise_for_status()
    for line in response.text.splitlines():
        parts = line.split()
        if len(parts) == 2 and parts[1].lstrip("*") == name:
            return parts[0].lower()
    raise EngineError(f"{engine.sums_url()} does not list {name}")


def download(engine: Engine, http: httpx.Client, report: Reporter) -> bytes:
    """Return the archive, reporting how much of it is here."""
    body = bytearray()
    with http.stream("GET", engine.archive_url()) as response:
        response.raise_for_status()
        size = int(response.headers.get("content-length", 0)) or 1
        for part in response.iter_bytes():
            body += part
            report.say(min(5 + 90 * len(body) / size, 95), f"Downloading {engine.title} {engine.version}")
    return bytes(body)


def unpack(engine: Engine, body: bytes) -> bytes:
    """Return the binary, from an archive only that one member."""
    if engine.archive.endswith("_static"):
        return body
    if engine.archive_url().endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return archive.read(engine.name)
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        for member in tar:
            if member.isfile() and member.name.rsplit("/", 1)[-1] == engine.name:
                file = tar.extractfile(member)
                if file is not None:
                    return file.read()
    raise EngineError(f"{engine.archive_url()} holds no {engine.name}")
