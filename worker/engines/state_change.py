"""Moving, removing and importing resources of a state, with the engine's own commands."""

from worker.attempt.spec import StateChange
from worker.attempt.workspace import Workspace
from worker.enums import StateAction
from worker.errors import JobFailed

_WAIT = "-lock-timeout=30s"


async def change_state(space: Workspace, binary: str, importing: list[str]) -> None:
    """Carry out the change that the job names; one module's state is written through the runner's backend."""
    change = space.spec.options.state_change
    if change is None:
        raise JobFailed("The job names no change of the state.", code="bad_payload", hint="Update the runner.")
    match change.action:
        case StateAction.MOVE if change.module:
            await _move_between(space, binary, change)
        case StateAction.MOVE:
            await space.run([binary, "state", "mv", _WAIT, change.addresses[0], change.to], is_changing=True)
        case StateAction.REMOVE:
            await space.run([binary, "state", "rm", _WAIT, *change.addresses], is_changing=True)
        case StateAction.IMPORT:
            command = [*importing, "-input=false", _WAIT, change.addresses[0], change.id]
            await space.run(command, what=f"{space.spec.module.engine} import {change.addresses[0]}", is_changing=True)
    space.result["state_change"] = change.model_dump(mode="json", exclude_defaults=True)


async def _move_between(space: Workspace, binary: str, change: StateChange) -> None:
    """Move with copies of both states, and hand both in with one call: the server stores both or neither."""
    server = space.context.server
    own, other = await space.backend.store.state_get(space.ref), await server.destination_state(space.ref)
    source, destination = space.root / "move" / "from.tfstate", space.root / "move" / "to.tfstate"
    source.parent.mkdir(mode=0o700, exist_ok=True)
    for path, state in ((source, own), (destination, other)):
        if state.exists and state.body:
            space.write(path, state.body.encode())
    await space.run(
        [binary, "state", "mv", f"-state={source}", f"-state-out={destination}", change.addresses[0], change.to],
        what=f"{space.spec.module.engine} state mv {change.addresses[0]} {change.to} (into the other module)",
        is_changing=True,
    )
    bodies = [(space.read(path) or b"").decode() for path in (source, destination)]
    await server.move_states(space.ref, *bodies)
    space.say("Both states are stored.")
