"""One SGR style and how parameters change it."""

from dataclasses import dataclass, replace
from functools import lru_cache

from app.jobs.log import colours

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
        return replace(style, colour=colours.named(first + (8 if base == 9 else 0)))
    if first < 8 and base in (4, 10):
        return replace(style, ground=colours.named(first + (8 if base == 10 else 0)))
    return style


def _extended(codes: list[int]) -> str:
    kind = codes.pop(0) if codes else 0
    wanted = {5: 1, 2: 3}.get(kind, 0)
    numbers = codes[:wanted]
    del codes[:wanted]
    if not wanted or len(numbers) < wanted or max(numbers) > 255:
        return ""
    return colours.from_256(numbers[0]) if kind == 5 else colours.from_rgb(*numbers)
