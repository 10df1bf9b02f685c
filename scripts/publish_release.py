"""Publishes a release of the runner to a project, or withdraws one.

Reads SUPABASE_URL and RELEASE_PUBLISH_TOKEN from the environment. The notes are the version's section of CHANGELOG.md,
unless a file is named. Needs nothing but Python, so that a pipeline can call it before anything is installed.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = 60


def main(argv: list[str] | None = None) -> int:
    """Send the release and print the result; exit codes: 0 published, 1 refused or unreachable, 2 wrong arguments."""
    arguments = parser().parse_args(argv)
    missing = [name for name in ("SUPABASE_URL", "RELEASE_PUBLISH_TOKEN") if not os.environ.get(name)]
    if missing:
        print(f"set {' and '.join(missing)}", file=sys.stderr)
        return 2
    try:
        body = withdrawal(arguments) if arguments.withdraw else release(arguments)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.dry_run:
        print(json.dumps(body, indent=2, ensure_ascii=False))
        return 0
    return send(os.environ["SUPABASE_URL"], os.environ["RELEASE_PUBLISH_TOKEN"], body)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    made.add_argument("version", help="as 1.4.0 or v1.4.0")
    made.add_argument(
        "--channel", choices=("stable", "beta"), help="stable if none is named; beta for a version as 1.4.0-rc.1"
    )
    made.add_argument("--notes", type=Path, help="a Markdown file; the changelog's section if none is named")
    made.add_argument("--breaking", action="store_true", help="require that people read the notes first")
    made.add_argument(
        "--artifact", action="append", default=[], metavar="FILE=URL", help="a file and where it is offered"
    )
    made.add_argument(
        "--offered", action="append", default=[], metavar="FOLDER=URL", help="all files of a folder, offered below URL"
    )
    made.add_argument("--withdraw", metavar="REASON", help="take the release back")
    made.add_argument("--dry-run", action="store_true", help="print what would be sent")
    return made


def release(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the body that publishes."""
    version = arguments.version.removeprefix("v")
    notes = arguments.notes.read_text(encoding="utf-8") if arguments.notes else changelog_section(version)
    return {
        "version": version,
        "channel": arguments.channel or ("beta" if "-" in version else "stable"),
        "notes": notes.strip(),
        "is_breaking": arguments.breaking,
        "artifacts": [artifact(text) for text in [*arguments.artifact, *offered(arguments.offered)]],
    }


def withdrawal(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the body that withdraws."""
    return {"withdraw": True, "version": arguments.version.removeprefix("v"), "reason": arguments.withdraw}


def artifact(text: str) -> dict[str, str]:
    """Describe one file by its name, address and checksum."""
    file, sign, url = text.partition("=")
    if not sign:
        raise ValueError(f"{text!r} is not FILE=URL")
    path = Path(file)
    return {"name": path.name, "url": url, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def offered(folders: list[str]) -> list[str]:
    """Name each file of a folder as `--artifact` does."""
    found = []
    for text in folders:
        folder, sign, url = text.partition("=")
        files = sorted(file for file in Path(folder).glob("*") if file.is_file())
        if not sign or not files:
            raise ValueError(f"{text!r} is not FOLDER=URL with a file in the folder")
        found += [f"{file}={url.rstrip('/')}/{file.name}" for file in files]
    return found


def changelog_section(version: str, file: Path = ROOT / "CHANGELOG.md") -> str:
    """Return what the changelog says about a version."""
    parts = re.split(r"^## ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for part in parts[1:]:
        title, _, text = part.partition("\n")
        if re.match(rf"\[?v?{re.escape(version)}\]?(\s|$)", title):
            return text
    raise ValueError(f"{file} has no section for {version}; write one, or name a file with --notes")


def send(url: str, token: str, body: dict[str, Any]) -> int:
    """Call the function; a refusal is printed as the server worded it."""
    request = urllib.request.Request(  # noqa: S310  (the address is the operator's own)
        f"{url.rstrip('/')}/functions/v1/publish-release",
        data=json.dumps(body).encode(),
        headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):  # noqa: S310
            print(f"{'withdrawn' if 'withdraw' in body else 'published'}: {body['version']}")
            return 0
    except urllib.error.HTTPError as error:
        print(f"refused with {error.code}: {error.read().decode(errors='replace')}", file=sys.stderr)
    except OSError as error:
        print(f"{url} cannot be reached: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
