"""The share of a large test that is run: a part with every push, the same each time; all of it in `make test-all`.

A push is judged by its changes, not by luck: another part, and other examples of hypothesis, are tried with another seed.
"""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

ALL_VARIABLE = "RUNYARD_TEST_ALL"
SEED_VARIABLE = "RUNYARD_TEST_SEED"
USUAL_SEED = "1"

Case = TypeVar("Case")


def is_all() -> bool:
    """Whether everything is to be run."""
    return os.environ.get(ALL_VARIABLE) == "1"


def choose_seed() -> str:
    """The seed of this run, printed in its first lines; processes that it starts inherit it."""
    return os.environ.setdefault(SEED_VARIABLE, USUAL_SEED)


def is_usual() -> bool:
    """Whether this run tries the same cases as every other run."""
    return choose_seed() == USUAL_SEED and not is_all()


def sampled(cases: Sequence[Case], count: int) -> tuple[Case, ...]:
    """So many of the cases in their own order, chosen by the run's seed; all of them in `make test-all`."""
    if is_all() or count >= len(cases):
        return tuple(cases)
    dice = random.Random(f"{choose_seed()}{len(cases)}")
    return tuple(cases[place] for place in sorted(dice.sample(range(len(cases)), count)))


def soak_seconds(whole: float) -> float:
    """Return the duration of a storm: a quarter of the whole with every push."""
    return whole if is_all() else whole / 4
