"""A quick start: imports without the parts of libraries that a runner never uses."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

# Imported wherever they are installed: httpx' own command line, structlog's coloured tracebacks, and HTTP/2.
UNUSED = ("httpx._main", "rich", "h2")


@contextmanager
def light_imports() -> Iterator[None]:
    """Import as if the unused parts were not installed; what is loaded already stays, and later imports find all."""
    hidden = [name for name in UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # none means "cannot be imported"
    # Modules and classes live as long as the process: a search for garbage among them, now or later, finds none.
    gc.disable()
    try:
        yield
        # httpx would import it, and h2 with it, when the first client is made.
        import_module("httpcore")
    finally:
        gc.freeze()
        gc.enable()
        for name in hidden:
            del sys.modules[name]
