"""The outcome of a benchmark: a part that fails costs its own figures, and the rest is kept."""

import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@contextmanager
def attempt(what: str, failed: list[str]) -> Iterator[None]:
    """Record an error inside, print it, and continue after it."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the other figures are still worth having
        failed.append(f"{what}: {type(error).__name__}: {error}")
        traceback.print_exc()
        print(f"no figure for {what}: {error}", flush=True)


@dataclass
class Outcome:
    """The figures of one benchmark by part, and which parts gave none."""

    name: str
    parts: dict[str, Any] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)

    def ratio(self, name: str, value: float, *, is_less_better: bool = False) -> None:
        """A figure that another machine may be compared by; it is kept so that more is better."""
        self.ratios[name] = round(1 / value if is_less_better else value, 4)

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """One part, which may fail alone."""
        with attempt(f"{self.name}, {what}", self.failed):
            yield

    def keep(self) -> None:
        """Write the JSON; the exit code tells that something is missing in it."""
        keep(self.name, {"benchmark": self.name, **self.parts, "ratios": self.ratios, "failed": self.failed})
        end(self.failed)


def keep(name: str, result: dict[str, Any]) -> None:
    """Write one benchmark's results."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")


def end(failed: list[str]) -> None:
    """Print the missing figures, and exit with 1 if there are any."""
    for each in failed:
        print(f"✗ {each}", file=sys.stderr)
    if failed:
        sys.exit(1)
