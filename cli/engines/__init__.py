"""Engine binaries for the embedded stack and the tests: found, fetched or built, never waited for."""

from cli.engines.cache import binary_folder, find
from cli.engines.catalog import ENGINES, Engine, EngineError
from cli.engines.ladder import ensure
from cli.engines.progress import Progress, read_progress

__all__ = ["ENGINES", "Engine", "EngineError", "Progress", "binary_folder", "ensure", "find", "read_progress"]
