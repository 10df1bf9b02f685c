"""The shell blocks of the documentation, and which of them run here."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stack.settings import PROJECT

# Decisions record a past state, and the table of commands is written from the program.
PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if page.parent.name != "decisions" and page.name != "commands.md"]
# A block that calls one of these does not run here; every other block does, unless a comment above it gives a reason.
NEEDS = {
    "aws": "needs AWS",
    "docker": "needs Docker",
    "helm": "needs a Kubernetes cluster",
    "kubectl": "needs a Kubernetes cluster",
    "pipx": "needs a release's wheel",
    "pulumi": "needs a Pulumi project",
    "supabase": "needs hosted Supabase or Docker",
    "systemctl": "needs systemd",
    "vault": "needs Vault",
}
CALLED = re.compile(rf"(?:^|[|;&(]) *(?:sudo +|\w+=\S* +)*({'|'.join(NEEDS)}) ", re.MULTILINE)
FENCE = re.compile(r"^ *```(?:(sh|console)$)?")
MARK = re.compile(r"^ *<!-- not run: (.+) -->$")


@dataclass(frozen=True)
class Block:
    """A shell block: the number of its first line, its lines, and why it does not run, if it does not."""

    kind: str
    start: int
    lines: tuple[str, ...]
    reason: str

    def script(self) -> Iterator[tuple[int, str]]:
        """Its lines as bash reads them; of a transcript the commands, each with its output in a file named after its line."""
        for number, line in enumerate(self.lines, self.start):
            if self.kind == "sh":
                yield number, line
            elif line.startswith("$ "):
                yield number, f"eval {shlex.quote(line[2:])} > shown-{number} 2>&1 || true"

    def transcript(self) -> dict[int, list[str]]:
        """For each command of a transcript, by its line, the lines that it prints."""
        found: dict[int, list[str]] = {}
        for number, line in enumerate(self.lines if self.kind == "console" else (), self.start):
            if line.startswith("$ "):
                printed = found[number] = []
            else:
                printed.append(line)
        return found


def pattern_of(lines: list[str]) -> str:
    """A pattern of printed lines: … is any text, and alone any number of lines."""
    parts = ["(?:.*\n)*" if line == "…" else re.escape(line).replace("…", "[^\n]*") + "\n" for line in lines]
    return "".join(parts)


def name_of(page: Path) -> str:
    """A page as failures name it."""
    return page.relative_to(PROJECT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    """Every shell block of a page."""
    lines = page.read_text().splitlines()
    fences = [number for number, line in enumerate(lines) if FENCE.match(line)]
    found = []
    for start, end in zip(fences[::2], fences[1::2], strict=True):
        kind, inside = FENCE.match(lines[start])[1], tuple(lines[start + 1 : end])  # type: ignore[index]
        if kind:
            found.append(Block(kind, start + 2, inside, _reason(lines[start - 1], inside)))
    return found


def _reason(above: str, inside: tuple[str, ...]) -> str:
    marked, called = MARK.match(above), CALLED.search("\n".join(inside))
    return marked[1] if marked else NEEDS[called[1]] if called else ""
