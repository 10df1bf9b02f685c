"""Check docstrings, comments, messages and docs for phrases that no native engineer would write: `make lint-prose`.

Each rule has a pattern and what to write instead. Files are searched as text, because a phrase is as odd in a message as in a comment.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEARCHED = (
    "app",
    "worker",
    "cli",
    "stack",
    "wire",
    "scripts",
    "benchmarks",
    "tests",
    "supabase/schemas",
    "supabase/functions",
    "assets",
    "docs",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "Makefile",
)
SUFFIXES = (".py", ".sql", ".js", ".ts", ".md", "Makefile")
# Their sources are searched.
GENERATED = (
    "supabase/schemas/api.sql",
    *(f"docs/reference/{page}.md" for page in ("commands", "permissions", "settings", "statuses")),
)
# They contain the phrases themselves.
OWN = ("scripts/prose.py", "tests/unit/repository/test_prose.py")

# A space of a pattern also matches a line break, with the marks that start the next line of a comment or a string.
GAP = r"""(?:[ ]|[ ]*["']?[ ]*\n[ ]*(?:(?:\#|--|//|\*)[ ]?|f?["'])?)"""

RULES = {
    r"Say [a-z]+\b": "Return …, Explain …, or name the thing",
    r"Tell (?:whether|what|why|how|which|that|who|if|where|when|of)\b": "Return …, Report …, or Notify …",
    r"(?:says?|said|saying) so\b": "name what reports it, and where: is noted in the log, the page shows it",
    r"(?:is|are|was|were|be|been|being) told\b": "is notified, receives, learns",
    r"[wW]hoever\b": "anyone who, the caller",
    r"(?:for|of|by|to|from|than|keeps|with|as) who (?!in |can|is|are|was|were|has|to|else)": "name the person: the viewer, anyone who",
    r"Who (?:looks|reads|asks|calls|sees|does|made|started|takes|sends|holds)\b(?![^.\n]*\?)": "People who …, The caller",
    r"(?:who|somebody|nobody|everybody|anybody) look(?:s|ed)\b": "the viewer, a viewer of …",
    r"be(?:ing|en)? looked at\b": "open, current, read, checked",
    r"what is there\b": "what exists, the existing …",
    r"by (?:itself|themselves)\b": "automatically, on its own",
    r"stands? for\b": "represents, is, means",
    r"(?:stands?|stood) (?:first|above|below|beside|at|before|after|there|here|alone)\b": "is",
    r"(?:lies|lie|lay|lying) (?:in|at|below|beside|under|on|there|outside|above)\b": "is in, is below",
    r"(?:is|are|was|were|be|been|being) asked\b": "is requested, is queried, receives a request",
    r"asks? for (?:approvals?|no|none|one|more|less|a higher|at least)\b": "requires",
    r"(?:borne|bearable)\b": "tolerated, ignored",
    r"(?:comes?|coming|came) back\b": "returns, reconnects",
    r"(?:is|are|was|were) there\b(?! (?:a|an|no|any|is|still|something|anything|nothing|more|room|one|rows)\b)": "exists, is present",
    r"(?:is|are|was|were|be) gone\b": "was removed, no longer exists, has ended",
    r"(?:hears?|heard) (?:of|from|the|that|what|only|nothing)\b": "receives, learns",
    r"anew\b": "again",
    r"tells? (?:of|whether|what|which|how)\b": "shows, reports",
    r"lets? (?:it |them )?go\b": "release",
    r"foreseen\b": "expected",
    r"[eE]-mails?\b": "email",
    r"(?:is|are) good (?:for|once)\b": "is valid for, works once",
    r"shut in\b": "isolated",
    r"(?:rung|rang)\b": "woken, notified",
    r"the matter\b": "wrong",
    r"(?:go|goes|going|went) on\b": "continue",
    r"(?<![Tt]here\s)(?:is|are|was|were) no (?!longer|more|way|need|such|other|one|matter|longer)[a-z]+\b": "is not a",
    r"(?<=\.\s)What [a-z]+ (?![^.]*\?)": "a noun as the subject, not a clause",
    r"(?<=\"\"\")(?:What|Who|Whom|Whose|Where|Which|How|Why) ": "a verb (Return, Explain, Count), or the thing's name",
    r"(?<=--\s)(?:What|Who) (?![^.\n]*\?)": "a noun as the subject, not a clause",
    r"(?<=/\*\*\s)(?:What|Who) (?![^.\n]*\?)": "a noun as the subject, not a clause",
    r"Lets? (?:it|them|a|an|the|another|people|somebody|nobody|everybody|only|every|each|no) ": "the concrete verb: Allow, Make, Keep, Set",
    r"(?:is|are|was|were) (?:waited|looked) (?:for|at|into|after)\b": "the runner waits for …, somebody checks …",
    r"(?:is|are|was|were) said\b": "is shown, is reported",
    r"says? (?:it|that|which|what|how|when|where|whether|nothing|no|the same)\b": "shows, contains, names",
    r"do(?:es)? without\b": "needs no …, is ignored",
    r"for want of\b": "for lack of",
    r"(?<![-.])(?:mended|heals?|healed)\b": "fix, recover",
    r"believed\b": "counts, is trusted",
    r"Have (?:a|an|the|its?) (?:[a-z]+ )+[a-z]+ed\b": "the act itself: Create …, Start …",
}


@dataclass(frozen=True)
class Finding:
    """A phrase, where it is, and what to write instead."""

    path: str
    line: int
    phrase: str
    instead: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: "{self.phrase}": {self.instead}'


PATTERNS = {rf"\b{pattern}".replace(" ", GAP): instead for pattern, instead in RULES.items()}
# One search for all of them is ten times faster than one for each.
ANY = re.compile("|".join(PATTERNS))


def findings(path: str, text: str) -> Iterator[Finding]:
    """Find the odd phrases of one file."""
    for match in ANY.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        instead = next(
            instead for pattern, instead in PATTERNS.items() if re.compile(pattern).match(text, match.start())
        )
        yield Finding(path, line, " ".join(match.group().split()), instead)


def searched_files() -> list[str]:
    """List the tracked files with prose of our own."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *SEARCHED], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [path for path in listed if path.endswith(SUFFIXES) and not path.startswith((*GENERATED, *OWN))]


def main(paths: list[str]) -> int:
    """Print the findings of the given files, or of all; fail if there is one."""
    found = [
        finding
        for path in paths or searched_files()
        for finding in findings(path, (ROOT / path).read_text(encoding="utf-8"))
    ]
    for finding in sorted(found, key=lambda finding: (finding.path, finding.line)):
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
