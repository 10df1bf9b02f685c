"""The order of a set as a few sets of names: the database must agree with it after each step."""

from dataclasses import dataclass, field
from random import Random


@dataclass
class OrderModel:
    """A model of the members that are placed, ended and left out. `edges` are pairs of (before, after)."""

    names: list[str]
    edges: set[tuple[str, str]]
    placed: set[str] = field(default_factory=set)
    succeeded: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)

    def befores(self, name: str) -> set[str]:
        return {before for before, after in self.edges if after == name}

    def left_out(self) -> set[str]:
        """Everything that depends on a failure, at any distance."""
        found: set[str] = set()
        roots = self.failed | self.cancelled
        while fresh := {after for before, after in self.edges if before in roots | found} - found:
            found |= fresh
        return found - self.placed - self.cancelled

    def place(self) -> None:
        for name in self.names:
            if name not in self.placed | self.cancelled and self.befores(name) <= self.succeeded:
                self.placed.add(name)

    def running(self) -> set[str]:
        return self.placed - self.succeeded - self.failed - self.cancelled

    def succeed(self, name: str) -> None:
        self.succeeded.add(name)
        self.place()

    def retry(self, name: str) -> None:
        self.failed.discard(name)
        self.cancelled.discard(name)

    def cancel_rest(self, queued: set[str]) -> None:
        """Cancel waiting members; those left out because of a failure stay so."""
        self.cancelled |= queued | (set(self.names) - self.placed - self.left_out())


def random_dag(chance: Random, most: int = 9) -> tuple[list[str], set[tuple[str, str]]]:
    """Modules in an order in which each edge points forward."""
    names = [f"dag/m{number}" for number in range(chance.randint(2, most))]
    density = chance.choice((0.15, 0.35, 0.6))
    chance.shuffle(names)
    pairs = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
    return names, {pair for pair in pairs if chance.random() < density}
