"""Search in a log without reading it: the database lists the chunks that contain the words."""

_COLOURS = r"(\u001B\[[0-9;:]*m)*"


def pattern(words: str) -> str:
    """Write a regular expression that finds words also where a colour changes within them.

    Every character that could mean something is escaped, so the reader's text is only ever text.
    """
    return _COLOURS.join(char if char.isalnum() else f"\\{char}" for char in words)
