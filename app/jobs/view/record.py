"""The signed record of a run's change, in words."""

from typing import TypedDict

from app.project.models import Row


class RecordView(TypedDict):
    """A run's record on its page; `tone` is empty where the run has none."""

    tone: str
    words: str
    since: str
    place: str


NO_RECORD: RecordView = {"tone": "", "words": "", "since": "", "place": ""}


def build_record(row: Row | None) -> RecordView:
    if not row:
        return NO_RECORD
    place = f"Record {row['sequence']} of this module"
    if row["broken_at"]:
        words = f"The chain is broken at record {row['broken_at']}"
        return {"tone": "broken", "words": words, "since": "", "place": place}
    if not row["signed_at"]:
        return {"tone": "waiting", "words": "Waits for its signature", "since": "", "place": place}
    return {"tone": "signed", "words": "Signed, chain complete since ", "since": str(row["since"]), "place": place}
