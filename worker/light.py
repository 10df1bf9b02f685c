"""A quick start: imports without the parts of libraries that a runner never uses."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# httpx imports its own command line and structlog coloured tracebacks, both only where rich is installed.
UNUSED = ("httpx._main", "rich")


@contextmanager
def light_imports() -> Iterator[None]:
    """Import as if the unused parts were not installed; what is loaded already stays, and later imports find all."""
    hidden = [name for name in UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # none means "cannot be imported"
    # Modules and classes live as long as the process: a search for garbage among them finds none.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        for name in hidden:
            del sys.modules[name]
