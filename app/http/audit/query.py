"""Which audit events are shown and exported."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_WORD = re.compile(r"[a-z_]{1,40}(?:\.[a-z_]{1,40})?")
_ACTOR = re.compile(r"[^\w.@+ -]")


@dataclass(frozen=True)
class AuditFilter:
    """What the reader chose: an action such as job.approved, or a kind of thing such as job, and part of a name."""

    action: str = ""
    actor: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "AuditFilter":
        """Read the choice from an address; what makes no sense is left out."""
        action, actor = query.get("action", ""), query.get("actor", "")
        return cls(action if _WORD.fullmatch(action) else "", _ACTOR.sub("", actor)[:100].strip())

    def conditions(self) -> list[tuple[str, str, str]]:
        """Say it to PostgREST, as (column, operator, value)."""
        found = []
        if "." in self.action:
            found.append(("action", "eq", self.action))
        elif self.action:
            found.append(("action", "like", f"{self.action}.*"))
        if self.actor:
            escaped = self.actor.replace("_", r"\_")
            found.append(("actor_label", "ilike", f"*{escaped}*"))
        return found
