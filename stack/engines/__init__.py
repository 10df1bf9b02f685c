"""Engine binaries for the embedded stack and the tests: found, fetched or built, never waited for."""

from stack.engines.cache import binary_folder, find
from stack.engines.catalog import ENGINES, Engine, EngineError
from stack.engines.ladder import ensure
from stack.engines.progress import Progress, read_progress

__all__ = ["ENGINES", "Engine", "EngineError", "Progress", "binary_folder", "ensure", "find", "read_progress"]
