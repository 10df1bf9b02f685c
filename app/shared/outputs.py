"""An output, as the pages of a job and of a module show it."""

from typing import TypedDict


class OutputView(TypedDict):
    """One output of the state."""

    name: str
    value: str
    is_secret: bool
