"""One SGR style and how parameters change it."""

from dataclasses import dataclass, replace
from functools import lru_cache

# A log has sixteen colours: anything finer is mapped to the nearest one that both themes can show legibly.
_LETTERS = "krgyumcw"
_SPREAD_OF_GREY = 40
_BRIGHT_FROM = 200
_CUBE_STEPS = (0, 95, 135, 175, 215, 255)

_MAX_PARAMETERS = 32
_MAX_DIGITS = 4
# 58 colours the underline: its numbers are read, so that they are not taken for switches, and then left alone
_EXTENDED = {38: "colour", 48: "ground", 58: ""}
_SWITCHES = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"inverse": True},
    9: {"strike": True},
    21: {"underline": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"inverse": False},
    29: {"strike": False},
    39: {"colour": ""},
    49: {"ground": ""},
}


@dataclass(frozen=True)
class Style:
    """The attributes that SGR has switched on; concealed text and blinking are not supported."""

    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False
    inverse: bool = False
    colour: str = ""
    ground: str = ""

    @property
    def classes(self) -> str:
        return _classes(self)

    def after(self, params: str) -> "Style":
        if params.strip("0123456789;:"):
            return self  # private parameters such as ESC[>4;2m are not colours
        return _after(self, params)


PLAIN = Style()


@lru_cache(maxsize=512)
def _classes(style: Style) -> str:
    flags = {
        "b": style.bold,
        "d": style.dim,
        "i": style.italic,
        "n": style.underline,
        "s": style.strike,
        "v": style.inverse,
    }
    names = [f"a-{letter}" for letter, is_on in flags.items() if is_on]
    if style.colour:
        names.append(f"a-{style.colour}" if style.colour.islower() else f"a-x{style.colour.lower()}")
    if style.ground:
        names.append(f"a-o{style.ground.lower()}")
    return " ".join(names)


@lru_cache(maxsize=2048)
def _after(style: Style, params: str) -> Style:
    codes = _numbers(params)
    while codes:
        code = codes.pop(0)
        if code in _EXTENDED:
            letter = _extended(codes)
            style = replace(style, **{_EXTENDED[code]: letter}) if letter and _EXTENDED[code] else style  # type: ignore[arg-type]
        else:
            style = _switch(style, code)
    return style


def _numbers(params: str) -> list[int]:
    # 38:2::r:g:b names a colour space between the colons; it is empty in practice and would shift the numbers
    parts = params.replace("38:2::", "38:2:").replace("48:2::", "48:2:").replace(":", ";").split(";")
    return [int(part) if part and len(part) <= _MAX_DIGITS else 0 for part in parts[:_MAX_PARAMETERS]]


def _switch(style: Style, code: int) -> Style:
    if code == 0:
        return PLAIN
    if code in _SWITCHES:
        return replace(style, **_SWITCHES[code])  # type: ignore[arg-type]
    base, first = divmod(code, 10)
    if first < 8 and base in (3, 9):
        return replace(style, colour=named(first + (8 if base == 9 else 0)))
    if first < 8 and base in (4, 10):
        return replace(style, ground=named(first + (8 if base == 10 else 0)))
    return style


def _extended(codes: list[int]) -> str:
    kind = codes.pop(0) if codes else 0
    wanted = {5: 1, 2: 3}.get(kind, 0)
    numbers = codes[:wanted]
    del codes[:wanted]
    if not wanted or len(numbers) < wanted or max(numbers) > 255:
        return ""
    return from_256(numbers[0]) if kind == 5 else from_rgb(*numbers)


def named(index: int) -> str:
    """Return the letter of one of the sixteen colours; bright ones are upper case."""
    letter = _LETTERS[index % 8]
    return letter.upper() if index >= 8 else letter


def from_rgb(red: int, green: int, blue: int) -> str:
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
