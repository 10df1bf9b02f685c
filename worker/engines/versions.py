"""Whether an engine's version is the one that a module requires."""

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from worker.errors import JobFailed


def check_version(engine: str, found: str, required: str | None) -> None:
    """Refuse a job whose requirement the found engine does not meet."""
    if not required or not required.strip():
        return
    try:
        is_met = Version(found) in _specifiers(required)
    except (InvalidSpecifier, InvalidVersion) as error:
        raise JobFailed(
            f"The module requires {engine} {required!r}, which is not a version.",
            code="bad_engine_version",
            hint="Write 1.12.6, or a range such as >=1.10,<2 or ~> 1.10.",
        ) from error
    if not is_met:
        raise JobFailed(
            f"The module requires {engine} {required}, but this runner has {found}.",
            code="engine_version",
            hint="Install the required version on the runner, or change the module's requirement.",
        )


def _specifiers(required: str) -> SpecifierSet:
    return SpecifierSet(",".join(_specifier(part.strip()) for part in required.split(",")), prereleases=True)


def _specifier(part: str) -> str:
    # Terraform's own spelling of "compatible", and a bare version, which means exactly that one.
    if part.startswith("~>"):
        version = part.removeprefix("~>").strip().lstrip("v")
        return f"~={version}" if "." in version else f">={version}"
    if re.match(r"v?\d", part):
        return f"=={part.lstrip('v')}"
    if re.match(r"=\s*v?\d", part):
        return f"=={part.lstrip('= v')}"
    return re.sub(r"^([<>=!]+)\s*v?", r"\1", part)
