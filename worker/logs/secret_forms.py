"""The spellings under which a secret turns up in output, shapes that are secrets wherever they stand, and how they are found."""

import base64
import html
import json
import re
import shlex
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from worker.logs.texts import OutputDecoder

Span = tuple[int, int]


# Each pattern begins with plain characters, for which `re` searches a gigabyte a second; the text before them is
# checked behind them (a pattern that begins with an assertion is tried at every character, forty times slower). No
# pattern may match across a line end (the redactor releases text line by line), and each has an upper bound (so that a
# hostile line cannot grow what is held back).
_ACCESS_KEY = r"(?i:_?access_?key)[\"']?[ \t]*[:=][ \t]*[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"
# Each with the group that is the secret.
SHAPES: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"://[^\s/@:]{0,256}:([^\s/]{1,1024})@"), 1),
    (re.compile(r"eyJ[A-Za-z0-9_-]{8,2048}\.eyJ[A-Za-z0-9_-]{4,8192}\.[A-Za-z0-9_-]{0,2048}"), 0),
    (re.compile(r"A(?<![A-Z0-9]A)(?:KIA|SIA)[A-Z0-9]{16}(?![A-Z0-9])"), 0),
    (re.compile("ecret" + _ACCESS_KEY), 1),
    (re.compile("ECRET" + _ACCESS_KEY), 1),
    (re.compile(r"ryw_[0-9A-Za-z]{20,64}"), 0),
    (re.compile(r"sb_secret_[0-9A-Za-z_-]{8,256}"), 0),
    (re.compile(r"gh(?<!\wgh)[pousr]_[0-9A-Za-z]{30,255}"), 0),
)


def shape_spans(text: str) -> Iterator[Span]:
    """Yield where a secret's shape stands in the text."""
    for pattern, group in SHAPES:
        for match in pattern.finditer(text):
            yield match.span(group)


# The length of a sample of the text; shorter samples would too often occur in ordinary words.
SAMPLE = 6
# A form this long is met by at least one sample of six characters out of every eleven.
SHORTEST_SAMPLED = 16
# Below this many, one search for each form is quicker than sampling.
FEWEST_SAMPLED = 12


class FormFinder:
    """Finds the places of forms in a text.

    A search for one form reads a gigabyte a second, but a runner with forty secrets has hundreds of forms. So the
    finder looks up the long ones by samples: wherever such a form is, it contains one of the text's samples, and the
    finder searches only for the forms that have a sample in common with the text.
    """

    def __init__(self, forms: Iterable[str]) -> None:
        forms = tuple(forms)
        sampled = [form for form in forms if len(form) >= SHORTEST_SAMPLED]
        if len(sampled) < FEWEST_SAMPLED:
            sampled = []
        kept = set(sampled)
        self._always = tuple(form for form in forms if form not in kept)
        self._stride = min(map(len, sampled), default=SHORTEST_SAMPLED) - SAMPLE + 1
        self._by_sample: dict[str, list[str]] = {}
        for form in sampled:
            for at in range(self._stride):
                self._by_sample.setdefault(form[at : at + SAMPLE], []).append(form)

    def spans(self, text: str) -> Iterator[Span]:
        """Yield every place of every form, overlapping ones too."""
        for form in self.candidates(text):
            start = text.find(form)
            while start >= 0:
                yield start, start + len(form)
                start = text.find(form, start + 1)

    def candidates(self, text: str) -> Iterable[str]:
        """Return the forms that can be in the text at all."""
        known, size = self._by_sample, SAMPLE
        if not known:
            return self._always
        met = {sample for at in range(0, len(text), self._stride) if (sample := text[at : at + size]) in known}
        return {*self._always, *(form for sample in met for form in known[sample])}


_SIGNS = dict(zip(b"abeEfnrtv\\", b"\a\b\x1b\x1b\f\n\r\t\v\\", strict=True))
# `\c` ends the output.
_SHELLS = (
    re.compile(rb"(?s)\\(?:(c).*|0([0-7]{0,3})|([abfnrtv\\]))"),
    # Newer dash.
    re.compile(rb"(?s)\\(?:(c).*|0([0-7]{0,3})|([abefnrtv\\]))"),
    re.compile(rb"(?s)\\(?:(c).*|0?([0-7]{1,3})|([abeEfnrtv\\])|x([0-9A-Fa-f]{1,2}))"),
)

# Shorter values ("yes", "10") would blank out ordinary words.
SHORTEST_SECRET = 6
# Characters at the front that an unknown neighbour before the secret also decides.
_BASE64_SHARED = {0: 0, 1: 2, 2: 3}
# Of longer values, spellings that are several times as long would slow every log down.
_LONGEST_RARE = 1024


def forms_of(secrets: Iterable[str]) -> tuple[str, ...]:
    """List every spelling of every secret, longest first."""
    found: set[str] = set()
    for secret in secrets:
        shown = {secret, *echoed(secret)}
        for part in {part for each in shown for part in (each, each.strip(), *each.splitlines())}:
            if len(part) >= SHORTEST_SECRET:
                found.update(form for form in _forms(part) if len(form) >= SHORTEST_SECRET)
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _forms(secret: str) -> Iterator[str]:
    yield from (secret, secret.upper(), secret.lower())
    for once in set(_json_forms(secret)):
        yield once
        yield from _json_forms(once)
    yield from _url_forms(secret)
    yield from _shell_forms(secret)
    yield html.escape(secret)
    yield from _base64_forms(secret.encode())
    yield from _base32_forms(secret.encode())
    yield secret.encode().hex()
    yield secret.encode().hex().upper()
    if len(secret) <= _LONGEST_RARE:
        # A short form costs a search of its own in every text.
        yield from (form for form in _rare_forms(secret) if len(form) >= SHORTEST_SAMPLED)


def _json_forms(secret: str) -> Iterator[str]:
    for ascii_only in (True, False):
        escaped = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        # Go's encoder, and so every engine, also escapes these three.
        yield (escaped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _rare_forms(secret: str) -> Iterator[str]:
    # Kubernetes encodes a file that has encoded passwords in it.
    for once in set(_base64_forms(secret.encode())):
        yield from _base64_forms(once.encode())
    # .NET's encoder, and one that escapes everything.
    yield re.sub(r"[^ -~]|[\"'+<>&`]", _unicode_escape, secret.replace("\\", "\\\\"))
    whole = re.sub(r"(?s).", _unicode_escape, secret)
    yield from (whole, whole.lower())


def _unicode_escape(match: re.Match[str]) -> str:
    code = match.group().encode("utf-16-be", errors="surrogatepass").hex().upper()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))


def _url_forms(secret: str) -> Iterator[str]:
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield encoded
        yield _lower_escapes(encoded)


def _lower_escapes(encoded: str) -> str:
    head, *rest = encoded.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])


def _shell_forms(secret: str) -> Iterator[str]:
    yield shlex.quote(secret).removeprefix("'").removesuffix("'")
    yield secret.replace("'", "'\\''")
    doubled = secret.replace("\\", "\\\\")
    for special in '"$`':
        doubled = doubled.replace(special, f"\\{special}")
    yield doubled


def _base64_forms(secret: bytes) -> Iterator[str]:
    for shift, shared in _BASE64_SHARED.items():
        encoded = base64.b64encode(b"\0" * shift + secret).decode().rstrip("=")
        whole = (shift + len(secret)) * 8 // 6
        core = encoded[shared:whole]
        yield core
        yield core.replace("+", "-").replace("/", "_")


def _base32_forms(secret: bytes) -> Iterator[str]:
    for shift in range(5):
        encoded = base64.b32encode(b"\0" * shift + secret).decode()
        # Five bits each: an unknown neighbour before the secret also decides the first characters.
        core = encoded[-(-shift * 8 // 5) : (shift + len(secret)) * 8 // 5]
        yield core
        yield core.lower()


def echoed(value: str) -> set[str]:
    """Return what shells that interpret backslashes print instead: `echo` of dash, `echo -e` and `printf %b` of bash."""
    if "\\" not in value:
        return set()
    data = value.encode(errors="surrogateescape")
    return {OutputDecoder().feed(shell.sub(_shown, data), is_last=True) for shell in _SHELLS}


def _shown(match: re.Match[bytes]) -> bytes:
    end, octal, sign, *hexadecimal = match.groups()
    if end:
        return b""
    if sign:
        return bytes([_SIGNS[sign[0]]])
    code = int(octal or b"0", 8) if octal is not None else int(hexadecimal[0], 16)
    return bytes([code & 0xFF])


# `base64` wraps at 76 characters, PEM at 64. Each pattern begins with one plain character, for which `re` searches ten
# times as fast as for one of several.
NARROWEST_WRAP = 60
_WRAPPED = rf"[A-Za-z0-9+/_-]{{{NARROWEST_WRAP}}}"
# Breaks that can be inside of a secret without being part of it: colour codes, the line ends of wrapped base64, characters
# without width, and the NULs of UTF-16, which the decoder replaced.
_BREAKS = {
    "\x1b": re.compile(r"\x1b\[[0-9;:?]*[@-~]"),
    "\n": re.compile(rf"\n(?<={_WRAPPED}\n)[ \t]*"),
    "\r": re.compile(rf"\r(?<={_WRAPPED}\r)\n?[ \t]*"),
    **{sign: re.compile(f"{sign}+") for sign in "\ufffd\u200b\u200c\u200d\u2060\ufeff"},
}


SIGNS = "".join(_BREAKS)


class UnbrokenText:
    """A text without such breaks, which knows where each character was."""

    def __init__(self, text: str) -> None:
        """Remove the breaks."""
        breaks = sorted(match.span() for match in _matches(text))
        parts: list[str] = []
        self._starts, self._shifts = [0], [0]
        position = length = 0
        for start, end in breaks:
            parts.append(text[position:start])
            length += start - position
            position = end
            self._starts.append(length)
            self._shifts.append(position - length)
        self.is_same = not breaks
        self.text = text if self.is_same else "".join([*parts, text[position:]])

    def original(self, span: Span) -> Span:
        """Return the place of a span of this text in the original, including breaks inside of it."""
        start, end = span
        return self._place(start), self._place(end - 1) + 1

    def _place(self, position: int) -> int:
        return position + self._shifts[bisect_right(self._starts, position) - 1]


def wrapped_start(text: str, cut: int, longest: int) -> int:
    """Move a cut at a line's beginning to before the wrapped lines that end there, by no more than a secret's length."""
    while cut > 0 and len(text) - cut < longest:
        end = cut - 2 if text[cut - 2 : cut] == "\r\n" else cut - 1
        if text[end] not in "\r\n" or not _BREAKS[text[end]].match(text, end):
            break
        cut = max(text.rfind("\n", 0, end), text.rfind("\r", 0, end)) + 1
    return cut


def _matches(text: str) -> Iterator[re.Match[str]]:
    for sign, pattern in _BREAKS.items():
        if sign in text:
            yield from pattern.finditer(text)
