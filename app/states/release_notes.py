"""The release notes dialog: every published version, what changed, how many runners have it."""

from collections import Counter
from typing import TypedDict

import reflex as rx

from app.runners.files import RunnerFile, files_of
from app.runners.versions import latest, published
from app.services.errors import AppError
from app.services.runtime import runtime
from app.services.store import OrgStore
from app.states.session import AppState, say_error


class ReleaseItem(TypedDict):
    """One version in the dialog's list."""

    version: str
    runner_count: str
    published_at: str
    is_latest: bool
    is_breaking: bool
    channel: str
    notes: str
    files: list[RunnerFile]


def build_releases(store: OrgStore) -> list[ReleaseItem]:
    """List the releases, newest first, with how many runners report each."""
    rows = store.rows("worker_releases")
    newest = latest(rows)
    counts = Counter(str(worker.get("version")) for worker in store.rows("workers"))
    return [
        {
            "version": str(row["version"]),
            "runner_count": str(counts[str(row["version"])] or ""),
            "published_at": str(row.get("published_at") or ""),
            "is_latest": row["version"] == newest,
            "is_breaking": bool(row.get("is_breaking")),
            "channel": str(row.get("channel") or "stable"),
            "notes": str(row.get("notes") or "No notes were written for this version."),
            "files": files_of(row),
        }
        for row in published(rows)
    ]


class ReleaseNotesState(AppState, rx.State):
    """The dialog, open or not."""

    is_open: bool = False
    releases: list[ReleaseItem] = []
    chosen: ReleaseItem = {
        "version": "",
        "runner_count": "",
        "published_at": "",
        "is_latest": False,
        "is_breaking": False,
        "channel": "",
        "notes": "",
        "files": [],
    }

    @rx.event
    async def show(self, version: str) -> rx.event.EventSpec | None:
        """Open the notes of a version; the newest when none is named."""
        who = await self._who()
        try:
            store = await runtime().hub.open(who.org_id, await who._must_session())
        except AppError as error:
            return say_error(error)
        self.releases = build_releases(store)
        if not self.releases:
            return rx.toast.info("No release has been published yet.")
        self._choose(version)
        self.is_open = True
        return None

    def _choose(self, version: str) -> None:
        named = [item for item in self.releases if item["version"] == version]
        newest = [item for item in self.releases if item["is_latest"]]
        self.chosen = (named or newest or list(self.releases))[0]

    @rx.event
    def choose(self, version: str) -> None:
        """Read another version's notes."""
        if self.releases:
            self._choose(version)

    @rx.event
    def set_open(self, is_open: bool) -> None:
        """Close the dialog, or open it again."""
        self.is_open = is_open and bool(self.releases)
