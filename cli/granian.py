"""The granian program, ended by any number of signals: `python -m cli.granian …`.

Its handler sets a `threading.Event` in the thread that waits for it, so a signal at the wrong moment makes that thread wait for itself,
and the server never ends. Linux sends several signals to the children of a killed process: one for each of its threads.
"""

import _thread
from collections.abc import Callable
from importlib import import_module
from typing import Any


def run() -> None:
    """Become granian, as the command line says."""
    server: Any = import_module("granian.server.common")
    register = server.set_main_signals
    server.set_main_signals = lambda *handlers: register(*map(_beside, handlers))
    import_module("granian.cli").entrypoint()


def _beside(handler: Callable[[], None]) -> Callable[..., Any]:
    """Handle a signal in a thread of its own, which may wait for the one that was interrupted."""
    return lambda *_: _thread.start_new_thread(handler, ())


if __name__ == "__main__":
    run()
