"""Whether a state that an engine sends may follow the one that is stored; checked before the engine learns that it is safe."""

import json
from typing import NamedTuple

from worker.statebackend.http import BadRequest

_CONFLICT = 409


class StateFields(NamedTuple):
    """The fields that order the versions of a state."""

    lineage: str
    serial: int


def read_fields(body: str) -> StateFields:
    """Read a state's lineage and serial; an encrypted state of OpenTofu has them in the clear, too."""
    try:
        state = json.loads(body)
    except ValueError as error:
        raise BadRequest(400, "the state is not JSON") from error
    lineage, serial = (state.get("lineage", ""), state.get("serial")) if isinstance(state, dict) else (None, None)
    # A first apply that loses its backend leaves a state without a lineage behind, and later ones inherit that.
    if not isinstance(lineage, str):
        raise BadRequest(400, "the state's lineage is not a text")
    if not isinstance(serial, int) or isinstance(serial, bool) or serial < 0:
        raise BadRequest(400, "the state has no serial")
    return StateFields(lineage, serial)


def check_follows(body: str, stored: str | None) -> None:
    """Refuse a state that is none, that belongs to something else, or that is not newer than the stored one."""
    new = read_fields(body)
    if stored is None or stored == body:
        return
    try:
        old = read_fields(stored)
    except BadRequest:
        # Of another engine: the database decides.
        return
    if old.lineage and new.lineage != old.lineage:
        raise BadRequest(_CONFLICT, f"the state's lineage is {new.lineage}, and the stored one's is {old.lineage}")
    if new.serial <= old.serial:
        raise BadRequest(_CONFLICT, f"the state's serial is {new.serial}, and the stored one's is {old.serial} already")
