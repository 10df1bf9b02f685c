"""The release notes dialog: every published version, what changed, how many runners have it."""

from typing import TypedDict

import reflex as rx

from app.frame.releases.files import RunnerFile, files_of
from app.frame.session import AppState
from app.frame.versions import latest, published
from app.project.runtime import runtime
from app.project.store import OrgStore
from app.ui.view import read


class ReleaseItem(TypedDict):
    version: str
    runner_count: str
    published_at: str
    is_latest: bool
    is_breaking: bool
    channel: str
    notes: str
    files: list[RunnerFile]


TOPICS = ("worker_releases", "facets")
NO_RELEASE: ReleaseItem = read(ReleaseItem, {})


def build_releases(store: OrgStore) -> list[ReleaseItem]:
    """List the releases, newest first, with how many runners report each."""
    rows = store.rows("worker_releases")
    newest = latest(rows)
    counts = (store.facets.get("counts") or {}).get("version") or {}
    return [
        read(
            ReleaseItem,
            row,
            runner_count=counts.get(str(row["version"])),
            is_latest=row["version"] == newest,
            channel=row.get("channel") or "stable",
            notes=row.get("notes") or "No notes were written for this version.",
            files=files_of(row),
        )
        for row in published(rows)
    ]


def releases_of(store: OrgStore) -> list[ReleaseItem]:
    """List them, or take the list that was made since the last change."""
    return store.derive("releases", TOPICS, build_releases)


def choose(releases: list[ReleaseItem], version: str) -> ReleaseItem:
    """Find a version's notes; the newest stable one's when it is not there, or was withdrawn."""
    named = [item for item in releases if item["version"] == version]
    newest = [item for item in releases if item["is_latest"]]
    return (named or newest or releases or [NO_RELEASE])[0]


class ReleaseNotesState(AppState, rx.State):
    is_open: bool = False
    releases: list[ReleaseItem] = []
    chosen: ReleaseItem = NO_RELEASE
    _opened_by: str = ""

    @rx.event
    def leave(self) -> None:
        """Close it when the page that opened it was left: states outlive a reload."""
        if self._opened_by != self.router.session.session_id:
            self.is_open = False

    @rx.event
    async def show(self, version: str) -> rx.event.EventSpec | None:
        """Open the notes of a version; the newest when none is named."""
        who = await self._who()
        store = await runtime().hub.open(who.org_id, await who._must_session())
        releases = releases_of(store)
        if not releases:
            return rx.toast.info("No release has been published yet.")
        self._tell(releases, version)
        self.is_open, self._opened_by = True, self.router.session.session_id
        return None

    def _tell(self, releases: list[ReleaseItem], version: str) -> None:
        self._assign("releases", releases)
        self._assign("chosen", choose(releases, version))

    def _watch(self, store: OrgStore) -> None:
        """Show in the open dialog what was published or withdrawn meanwhile; what is being read stays."""
        if self.is_open:
            releases = releases_of(store)
            self._tell(releases, self.chosen["version"])
            self._assign("is_open", bool(releases))

    @rx.event
    def choose(self, version: str) -> None:
        self._tell(self.get_value("releases"), version)

    @rx.event
    def set_open(self, is_open: bool) -> None:
        self.is_open = is_open and bool(self.releases)
