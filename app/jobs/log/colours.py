"""The sixteen colours a log may have: anything finer is mapped to the nearest one that both themes can show legibly."""

_LETTERS = "krgyumcw"
_SPREAD_OF_GREY = 40
_BRIGHT_FROM = 200
_CUBE_STEPS = (0, 95, 135, 175, 215, 255)


def named(index: int) -> str:
    """Return the letter of one of the sixteen colours; bright ones are upper case."""
    letter = _LETTERS[index % 8]
    return letter.upper() if index >= 8 else letter


def from_rgb(red: int, green: int, blue: int) -> str:
    """Return the letter of the colour nearest to a true colour."""
    low, high = min(red, green, blue), max(red, green, blue)
    if high - low < _SPREAD_OF_GREY:
        return _grey(high)
    middle = (low + high) / 2
    index = (red > middle) + 2 * (green > middle) + 4 * (blue > middle)
    return named(index + 8 if high >= _BRIGHT_FROM else index)


def from_256(index: int) -> str:
    """Return the letter of the colour nearest to one of xterm's 256."""
    if index < 16:
        return named(index)
    if index >= 232:
        return _grey(8 + 10 * (index - 232))
    cube = index - 16
    steps = (cube // 36, cube // 6 % 6, cube % 6)
    red, green, blue = (_CUBE_STEPS[step] for step in steps)
    return from_rgb(red, green, blue)


def _grey(level: int) -> str:
    if level < 64:
        return named(0)
    if level < 160:
        return named(8)
    return named(7) if level < 224 else named(15)
