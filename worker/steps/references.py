"""Variables that the runner reads from the operator's vaults when a job needs them: the project has their addresses only."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from worker.api.replies import GivenVariable
from worker.attempt.workspace import Workspace
from worker.enums import VariableKind
from worker.errors import JobFailed, Retryable
from worker.vaults import FILE, SECRETS_MANAGER, read_secret

# Vault, proxies and programs decode and tidy up paths in ways of their own: what is compared must mean one place only.
_PATH = r"(?:/(?!\.\.?(?:[/#]|\Z))[A-Za-z0-9_.:@+=,!-]+)+"
_REFERENCE = re.compile(rf"file://{_PATH}|(?:vault|aws-sm):/{_PATH}(?:#.+)?")


async def read_references(space: Workspace, given: Sequence[GivenVariable]) -> list[GivenVariable]:
    """Replace each reference by its value; the log masks the values before anything uses them."""
    return list(await asyncio.gather(*(_read(space, each) if each.is_reference else _same(each) for each in given)))


async def _same(each: GivenVariable) -> GivenVariable:
    return each


async def _read(space: Workspace, each: GivenVariable) -> GivenVariable:
    reference, environ = str(each.value), space.context.environ
    _check_allowed(space, each.name, reference)
    try:
        text = await read_secret(source_of(reference, environ), environ, register=space.log.redactor.add)
    except Retryable as error:
        raise JobFailed(
            f"The variable {each.name} could not be read: {error.message}", code="source_unreadable",
            hint=error.hint or "Check the address, and the rights of the runner there.",
        ) from error  # fmt: skip
    return each.model_copy(update={"value": _typed(text) if each.kind is VariableKind.INPUT else text})


def _check_allowed(space: Workspace, name: str, reference: str) -> None:
    """The runner's operator decides which secrets jobs may name: anyone who sets variables could otherwise read all of them."""
    module = space.spec.module.path
    group = module.rpartition("/")[0]
    allowed = [
        pattern.replace("{module}", module).replace("{group}", group)
        for pattern in space.context.settings.sealing.allowed_sources
    ]
    address = reference.partition("#")[0]
    if not _REFERENCE.fullmatch(reference):
        raise JobFailed(
            f"The variable {name} refers to {address[:200]!r}, which is not an address that runners read.",
            code="source_refused",
            hint="Write letters, digits and _.:@+=,!- between single slashes: %, \\, ?, and the parts . and .. are refused.",
        )
    if not any(fnmatchcase(address, pattern) for pattern in allowed):
        raise JobFailed(
            f"The variable {name} refers to {address}, which this runner does not allow.", code="source_refused",
            hint="The runner's operator adds a pattern to Sealing.AllowedSources.",
        )  # fmt: skip


def source_of(reference: str, environ: Mapping[str, str]) -> str:
    """Translate a reference into a place that `read_secret` knows."""
    scheme, _, place = reference.partition("://")
    match scheme:
        case "file":
            return f"{FILE}{place}"
        case "aws-sm":
            return f"{SECRETS_MANAGER}{place}"
        case _:
            if not (address := environ.get("VAULT_ADDR")):
                raise Retryable("The runner knows no Vault.", hint="Set VAULT_ADDR for the runner.")
            return f"{address.rstrip('/')}/v1/{place}"


def _typed(text: str) -> Any:
    """A list or an object of a vault is one; everything else is a text, which engines convert."""
    try:
        return json.loads(text) if text[:1] in ("[", "{") else text
    except ValueError:
        return text
