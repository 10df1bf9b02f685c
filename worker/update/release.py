"""Checks of the request of an update's job: the version, its address, and whether this runner accepts them."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from packaging.version import InvalidVersion, Version

from worker.errors import JobFailed
from worker.settings.update import UpdateSettings

BY_HAND = "Update this runner by hand; its page shows the command."


@dataclass(frozen=True)
class Wanted:
    """One file of one release."""

    version: str
    url: str
    sha256: str


def read_wanted(payload: dict[str, Any], artifact: str, current: str) -> Wanted:
    """Choose the file for this platform; an older version only where the job allows it."""
    spec = payload.get("lifecycle") or {}
    version = str(spec.get("version") or "")
    _refuse_downgrade(version, current, is_asked=spec.get("allow_downgrade") is True)
    offered = [each for each in spec.get("artifacts") or [] if each.get("name") == artifact]
    if not offered:
        raise JobFailed(
            f"Release {version} has no file {artifact}.",
            code="update_no_artifact",
            hint=f"Publish the release with a file for this platform. {BY_HAND}",
        )
    return Wanted(version, str(offered[0].get("url")), str(offered[0].get("sha256")))


def _refuse_downgrade(version: str, current: str, *, is_asked: bool) -> None:
    try:
        is_older = Version(version) < Version(current)
    except InvalidVersion as error:
        raise JobFailed(f"{version!r} is not a version.", code="bad_payload") from error
    if is_older and not is_asked:
        raise JobFailed(
            f"This runner is at {current}, which is newer than {version}.",
            code="update_downgrade",
            hint="Name the older version when you ask for the update, if you want to go back to it.",
        )


def origin_of(url: str) -> str:
    """Return scheme, host and port."""
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return f"{parts.scheme}://{parts.hostname}:{port}"


def check_address(url: str, settings: UpdateSettings, project: str) -> None:
    """Refuse an address that may be listened to on the way, or that the operator did not name; redirects as well."""
    origin = origin_of(url)
    if origin == origin_of(project):
        return
    if not origin.startswith("https://"):
        raise JobFailed(
            f"The new version would come from {origin}, which is neither https nor the project's own address.",
            code="update_address",
            hint=f"Publish the release with an https address. {BY_HAND}",
        )
    if settings.origins and origin not in {origin_of(each) for each in settings.origins}:
        raise JobFailed(
            f"The new version would come from {origin}, which Update.Origins does not list.",
            code="update_address",
            hint=f"Add it to Update.Origins if you trust it. {BY_HAND}",
        )
