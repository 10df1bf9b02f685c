"""Chooses the version of an engine that a module requires."""

import re
from collections.abc import Sequence

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from worker.attempt.context import FoundEngine
from worker.errors import JobFailed

# Leaves out a version with a suffix (a pre-release): engines on demand are releases.
_NUMBERS = re.compile(r"\d+(?:\.\d+){0,2}(?![\w.+-])")


def choose_version(there: Sequence[FoundEngine], *required: str | None) -> FoundEngine:
    """Return the first of an engine's versions that meets every requirement; refuse a job that none of them fits."""
    wanted = [each.strip() for each in required if each and each.strip()]
    name = there[0].name
    for engine in there:
        if all(_is_met(name, engine.version, each) for each in wanted):
            return engine
    versions = ", ".join(engine.version for engine in there)
    raise JobFailed(
        f"The module requires {name} {' and '.join(wanted)}, but this runner has {versions}.",
        code="engine_version",
        hint=f"Run `runyard engines ensure {name}@VERSION` as the runner's user, install that version on the runner, or "
        "change the module's requirement.",
    )


def named_version(*required: str | None) -> str | None:
    """Return the newest version that the requirements name and accept; ~> 1.9 names 1.9.0."""
    wanted = [each.strip() for each in required if each and each.strip()]
    named = [Version(each) for each in _NUMBERS.findall(",".join(wanted))]
    whole = {f"{each.major}.{each.minor}.{each.micro}" for each in named}
    return max((each for each in whole if all(_is_met("", each, part) for part in wanted)), key=Version, default=None)


def _is_met(engine: str, found: str, required: str) -> bool:
    try:
        parts = (_specifier(part.strip()) for part in required.split(","))
        return Version(found) in SpecifierSet(",".join(parts), prereleases=True)
    except (InvalidSpecifier, InvalidVersion) as error:
        raise JobFailed(
            f"The module requires {engine} {required!r}, which is not a version.",
            code="bad_engine_version",
            hint="Write 1.12.6, or a range such as >=1.10,<2 or ~> 1.10.",
        ) from error


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
