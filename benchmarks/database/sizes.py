"""The sizes of a run: a few minutes by default, the sizes that the aims name with `--full`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Numbers of one run; each can be set on the command line."""

    repeats: int = 3
    pairs: int = 5
    workers: tuple[int, ...] = (1, 4, 16)
    jobs: int = 400
    seconds: float = 1.5
    calls: int = 300
    queued: int = 50_000
    finished: int = 50_000
    ahead: int = 20_000
    dead: int = 5_000
    enqueued: int = 500
    wakes: int = 100
    crowd: int = 2000
    shown: int = 50_000
    history: int = 100_000
    old_lines: int = 200_000
    runners: int = 10_000
    fleet_seconds: float = 15
    batch: int = 0


FULL = Sizes(
    pairs=15,
    jobs=1000,
    seconds=5,
    calls=1000,
    queued=1_000_000,
    finished=1_000_000,
    ahead=100_000,
    dead=100_000,
    enqueued=1000,
    wakes=300,
    crowd=5000,
    shown=200_000,
    history=5_000_000,
    old_lines=1_000_000,
    fleet_seconds=300,
    batch=50,
)
