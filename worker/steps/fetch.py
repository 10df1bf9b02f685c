"""The module's source: git, archive, inline files, a folder of the runner's machine, or one that was uploaded."""

import asyncio
import hashlib
import hmac
import re
import shutil
from pathlib import Path
from typing import assert_never
from urllib.parse import urlsplit

from worker.api.retrying import retry_for
from worker.attempt.workspace import Workspace, fetch_artifact
from worker.download import download
from worker.engines.terragrunt import generate_stack
from worker.enums import EngineName, SourceKind
from worker.errors import JobFailed
from worker.files.archive import MOST_BYTES, MOST_FILES, unpack
from worker.files.safe_writer import SafeWriter, split_path
from worker.steps.git import fetch_git

_ARCHIVE_SECONDS = 120.0
# Content of a machine's folder that is not source: state, plugins and caches of other runs.
_NOT_SOURCE = shutil.ignore_patterns(".terraform", "*.tfstate", "*.tfstate.*", ".git", "node_modules", "__pycache__")


async def fetch(space: Workspace) -> None:
    """Bring the source into the job's directory and find the module's folder in it."""
    source = space.spec.module.source
    match space.spec.module.source_kind:
        case SourceKind.GIT:
            space.result["commit"] = await fetch_git(space, source)
        case SourceKind.ARCHIVE:
            await fetch_archive(space, str(source.get("url") or ""), str(source.get("sha256") or ""))
        case SourceKind.INLINE:
            write_inline(space, source.get("files") or {})
        case SourceKind.LOCAL:
            await copy_local(space, str(source.get("path") or ""))
        case SourceKind.UPLOAD:
            await unpack_upload(space, str(source.get("sha256") or ""))
        case _ as never:
            assert_never(never)
    subfolder = str(source.get("subfolder") or "")
    if space.spec.module.engine is EngineName.TERRAGRUNT:
        await generate_stack(space, "/".join(split_path(subfolder.strip("/"))))
    space.work = find_folder(space.source, subfolder)


async def fetch_archive(space: Workspace, url: str, sha256: str) -> None:
    """Download, compare the checksum, unpack."""
    if urlsplit(url).scheme not in {"https", "http"}:
        raise JobFailed("An archive's URL must begin with https:// or http://.", code="bad_source")
    if not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise JobFailed(
            "The archive's SHA-256 is missing or not a checksum.", code="bad_source",
            hint="Set the checksum that the archive's publisher states.",
        )  # fmt: skip
    target = space.root / "archive"
    space.say(f"Fetching {url}")

    async def attempt() -> str:
        target.unlink(missing_ok=True)
        return await download(url, target, say=space.say)

    found = await retry_for(_ARCHIVE_SECONDS, attempt)
    if not hmac.compare_digest(found, sha256.lower()):
        raise JobFailed(
            f"The archive's SHA-256 is {found}, not {sha256.lower()}.", code="checksum",
            hint="The archive has changed. Check it, and then the module's checksum.",
        )  # fmt: skip
    count = await asyncio.to_thread(unpack, target, space.source)
    target.unlink()
    space.say(f"Unpacked {count} files; SHA-256 is right.")


async def unpack_upload(space: Workspace, sha256: str) -> None:
    """Unpack the folder that somebody sent to be planned."""
    body = await fetch_artifact(space, "source")
    if not hmac.compare_digest(hashlib.sha256(body).hexdigest(), sha256):
        raise JobFailed("The uploaded folder is not the one that was queued.", code="checksum", hint="Plan it again.")
    target = space.root / "archive"
    target.write_bytes(body)
    count = await asyncio.to_thread(unpack, target, space.source)
    target.unlink()
    space.say(f"Unpacked {count} files that were uploaded.")


def write_inline(space: Workspace, files: object) -> None:
    """Write the files that the module carries itself."""
    if not isinstance(files, dict) or not files:
        raise JobFailed("The module has no files.", code="bad_source", hint="Add at least one file to its source.")
    with SafeWriter(space.source, most_bytes=MOST_BYTES, most_files=MOST_FILES) as writer:
        for path, content in files.items():
            writer.write(path, str(content).encode(), mode=0o644)
    space.say(f"Wrote {len(files)} {'file' if len(files) == 1 else 'files'}.")


async def copy_local(space: Workspace, path: str) -> None:
    """Copy a folder of the runner's machine; links stay links and are not followed."""
    origin = Path(path).expanduser()
    if not origin.is_absolute() or not origin.is_dir():
        raise JobFailed(
            f"The runner's machine has no folder {path!r}.", code="bad_source",
            hint="Give the absolute path of a folder on the machine of every runner that may run this module.",
        )  # fmt: skip
    space.check_visible(origin)
    space.say(f"Copying {origin}")
    await asyncio.to_thread(
        shutil.copytree, origin, space.source, symlinks=True, ignore=_NOT_SOURCE, dirs_exist_ok=True
    )


def find_folder(source: Path, subfolder: str) -> Path:
    """Return the module's folder, which must lie inside the source, whatever links say."""
    place = source.joinpath(*split_path(subfolder.strip("/"))) if subfolder.strip("/") else source
    resolved = place.resolve()
    if not resolved.is_relative_to(source.resolve()):
        raise JobFailed(f"The subfolder {subfolder!r} leads outside of the source.", code="unsafe_path")
    if not resolved.is_dir():
        raise JobFailed(
            f"The source has no folder {subfolder!r}.", code="bad_source", hint="Check the module's subfolder."
        )
    return resolved
