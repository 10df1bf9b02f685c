"""The records that services hand to states."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass
class BrowserSession:
    """One signed-in browser: its tokens live here and nowhere nearer to the browser."""

    sid: str
    user_id: str
    email: str
    access_token: str
    refresh_token: str
    expires_at: float
    created_at: float
    org_id: str = ""
    user_agent: str = ""
    # The address from which its browser signed in.
    address: str = ""

    def __repr__(self) -> str:
        """Show who, never the tokens, so that a log line cannot leak them."""
        return f"BrowserSession({self.email!r}, org={self.org_id!r})"


@dataclass(frozen=True)
class KeptSession:
    """A session as its table has it; `key` names it to its owner and lets nobody in."""

    key: str
    session: BrowserSession
    last_used_at: float


@dataclass(frozen=True)
class Filter:
    """One PostgREST condition, for example Filter('org_id', 'eq', org_id)."""

    column: str
    operator: str
    value: str


@dataclass(frozen=True)
class Query:
    columns: str = "*"
    filters: tuple[Filter, ...] = ()
    or_filter: str = ""
    order: str = ""
    is_descending: bool = False
    limit: int | None = None
    offset: int = 0
    is_counted: bool = False


@dataclass(frozen=True)
class Page:
    """Rows, and how many there are in all when the query asked for the count."""

    rows: list[Row] = field(default_factory=list)
    total: int = 0


@dataclass(frozen=True)
class Organisation:
    id: str
    slug: str
    name: str
    role: str
    # Where the person was last, with whichever browser.
    is_last: bool = False
    # What roles at paths let them do somewhere.
    verbs: frozenset[str] = frozenset()
    # Whether everything in it may be seen; a guest sees what a role at a path gives.
    sees_all: bool = True
    # The provider that everybody else must come through: its break-glass owner came in without it.
    without: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Organisation":
        verbs = frozenset(row.get("verbs") or ())
        return cls(
            str(row["id"]), str(row["slug"]), str(row["name"]), str(row["role"]), bool(row.get("is_last")), verbs,
            row.get("sees") is None, str(row.get("without") or ""),
        )  # fmt: skip
