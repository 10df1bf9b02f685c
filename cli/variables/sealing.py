"""Sealing a secret to the organisation's public key: only runners that have the private half open it."""

import base64
import json
import os
from pathlib import Path
from typing import Any

from cli.client.organization import Organization, Row
from cli.errors import CommandError, Missing, first

Place = tuple[str, str, str, bool]
LABEL = "sealing-key"


def write_new_key(file: Path) -> str:
    """Write a new private key into a file that only its owner reads, and return the public half in base64."""
    from nacl.public import PrivateKey

    key = PrivateKey.generate()
    try:
        target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Missing(
            f"{file} cannot be written: {error.strerror}", "Name a new file in a folder that exists."
        ) from error
    with os.fdopen(target, "w", encoding="ascii") as writer:
        writer.write(f"{base64.b64encode(bytes(key)).decode()}\n")
    return base64.b64encode(bytes(key.public_key)).decode()


def current_key(org: Organization) -> Row:
    """The key that secrets are sealed to now."""
    found = org.api.rows("sealing_keys", org_id=f"eq.{org.id}", retired_at="is.null")
    return first(found, f"{org.slug} has no sealing key.", "An admin makes one: runyard variables create-key FILE.")


def seal(key: Row, place: Place, value: Any) -> dict[str, Any]:
    """A variable as `set_variables` expects it; its place is inside the box, so that the box is of no use elsewhere."""
    from nacl.public import PublicKey, SealedBox

    _, kind, name, is_hcl = place
    inside = json.dumps({"place": list(place), "value": value}, ensure_ascii=False).encode()
    box = SealedBox(PublicKey(base64.b64decode(key["public_key"]))).encrypt(inside)
    sealed = {"kind": kind, "name": name, "value": base64.b64encode(box).decode(), "is_hcl": is_hcl}
    return {**sealed, "key_id": key["id"]}


def reseal(old: Path, row: Row, key: Row) -> dict[str, Any]:
    """The same secret, sealed to another key."""
    from nacl.exceptions import CryptoError
    from nacl.public import PrivateKey, SealedBox

    try:
        private = PrivateKey(base64.b64decode(old.read_text(encoding="ascii").split()[-1]))
        inside = json.loads(SealedBox(private).decrypt(base64.b64decode(row["value"])))
    except (OSError, ValueError, IndexError, TypeError, CryptoError) as error:
        raise CommandError(
            f"{old} does not open {row['name']}.", "Name the file of the key that it was sealed to."
        ) from error
    place = (row["path"], row["kind"], row["name"], row["is_hcl"])
    if inside["place"] != list(place):
        raise CommandError(f"{row['name']} was sealed for another place.", "Enter its value again.")
    return {**seal(key, place, inside["value"]), "is_enforced": row["is_enforced"]}
