"""The variables of one job, and the keys that open its sealed ones and seal the files that contain their values."""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, SealedBox

from worker.api.replies import GivenVariable
from worker.children.environment import sensitive_values
from worker.enums import VariableKind
from worker.errors import JobFailed


@dataclass(frozen=True)
class JobVariables:
    """Values by name; which one wins is decided on the server."""

    inputs: dict[str, Any] = field(default_factory=dict, repr=False)
    expressions: dict[str, str] = field(default_factory=dict, repr=False)
    env: dict[str, str] = field(default_factory=dict, repr=False)
    files: dict[str, str] = field(default_factory=dict, repr=False)
    # Names of environment variables that are sealed, or read from a vault.
    secret_env: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, given: Iterable[GivenVariable]) -> "JobVariables":
        """Sort the variables by what becomes of them."""
        sorted_by_kind = cls()
        for each in given:
            sorted_by_kind._place(each)[each.name] = each.value
            if each.kind is VariableKind.ENV and each.key_id:
                sorted_by_kind.secret_env.add(each.name)
        return sorted_by_kind

    def _place(self, each: GivenVariable) -> dict[str, Any]:
        match each.kind:
            case VariableKind.ENV:
                return self.env
            case VariableKind.FILE:
                return self.files
            case VariableKind.INPUT:
                return self.expressions if each.is_hcl else self.inputs

    def secrets(self) -> list[str]:
        """List the texts of those whose names suggest secrets."""
        kinds: tuple[dict[str, Any], ...] = (self.inputs, self.expressions, self.env, self.files)
        return [text for values in kinds for text in sensitive_values(values)]


_MARK = b"RYSB1"
_ID_LENGTH = 16


def key_id_of(key: PrivateKey) -> str:
    """Name a key as the project does: the beginning of its public half's SHA-256."""
    return hashlib.sha256(bytes(key.public_key)).hexdigest()[:_ID_LENGTH]


@dataclass(frozen=True)
class Keys:
    """The keys of one job; `sealing` is the one that its files are sealed with, if it has sealed variables."""

    known: Mapping[str, PrivateKey]
    sealing: str | None = None

    @classmethod
    def read(cls, files: Iterable[Path]) -> "Keys":
        """Read the key files; one that cannot be read is the runner's mistake, and named."""
        keys = [_read_key(file) for file in files]
        return cls({key_id_of(key): key for key in keys})

    def open_all(self, given: Iterable[GivenVariable]) -> tuple["Keys", list[GivenVariable]]:
        """Open the sealed ones among a job's variables."""
        variables = list(given)
        used = [each.key_id for each in variables if each.key_id]
        opened = [self._open(each) if each.key_id and not each.is_reference else each for each in variables]
        return replace(self, sealing=used[0] if used else None), opened

    def seal(self, content: bytes) -> bytes:
        """Seal a file of a job with sealed variables, such as its plan: the values are in it. Others stay as they are."""
        if self.sealing is None:
            return content
        box = SealedBox(self._key(self.sealing, "The saved plan").public_key)
        return _MARK + self.sealing.encode() + box.encrypt(content)

    def unseal(self, content: bytes) -> bytes:
        """Open a file that `seal` closed."""
        if not content.startswith(_MARK):
            return content
        start = len(_MARK) + _ID_LENGTH
        return self._decrypt(content[len(_MARK) : start].decode(), content[start:], "The saved plan")

    def _open(self, each: GivenVariable) -> GivenVariable:
        box = base64.b64decode(str(each.value))
        inside: dict[str, Any] = json.loads(self._decrypt(str(each.key_id), box, f"The variable {each.name}"))
        # A box that somebody copied to another path or name would hand its secret to other code.
        if inside.get("place") != [each.path, each.kind.value, each.name, each.is_hcl]:
            raise JobFailed(
                f"The variable {each.name} was sealed for another place.", code="sealed_elsewhere",
                hint="Seal it again where it is set: runyard variables seal.",
            )  # fmt: skip
        return each.model_copy(update={"value": inside["value"]})

    def _key(self, key_id: str, what: str) -> PrivateKey:
        key = self.known.get(key_id)
        if key is None:
            raise JobFailed(
                f"{what} is sealed with key {key_id}, which this runner does not have.", code="sealing_key_missing",
                hint="Give the runner the key file (Sealing.KeyFiles), or remove its label.",
            )  # fmt: skip
        return key

    def _decrypt(self, key_id: str, box: bytes, what: str) -> bytes:
        key = self._key(key_id, what)
        try:
            opened: bytes = SealedBox(key).decrypt(box)
        except CryptoError as error:
            raise JobFailed(
                f"{what} cannot be opened: it is damaged.", code="sealed_damaged", hint="Seal it again."
            ) from error
        return opened


def texts_in(values: Iterable[Any]) -> list[str]:
    """List every text in values, for the log to mask."""
    found: list[str] = []
    for value in values:
        if isinstance(value, dict | list):
            found += texts_in(value.values() if isinstance(value, dict) else value)
        elif value is not None and not isinstance(value, bool):
            # An HCL expression is a text in quotes.
            found += {str(value), str(value).strip('"')}
    return found


def _read_key(file: Path) -> PrivateKey:
    try:
        return PrivateKey(base64.b64decode(file.read_text(encoding="ascii").split()[-1], validate=True))
    except (OSError, ValueError, IndexError, TypeError, CryptoError) as error:
        raise JobFailed(
            f"The sealing key {file} cannot be read: {error}", code="sealing_key_missing",
            hint="Sealing.KeyFiles names files that `runyard variables create-key` wrote.",
        ) from error  # fmt: skip
