"""A streaming redactor: no secret leaves, however the output is cut into pieces."""

from collections.abc import Iterable, Iterator
from weakref import WeakSet

from worker.logs.secret_forms import SIGNS, FormFinder, Span, UnbrokenText, forms_of, shape_spans, wrapped_start

MASK = "***"
# A line longer than this is released before it ends, or one line could fill the memory.
LONGEST_HELD_LINE = 16_384
# The end of such a line that the redactor keeps back; longer than any shape we know.
_KEPT_OF_LONG_LINE = 12_288


class Redactor:
    """Masks known secrets and secret shapes in a stream of text.

    Text is released up to the last line end, and never up to a point that could still turn out to
    lie inside a secret, so the result does not depend on where the stream was cut.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        self._held = ""
        self._carried = 0
        self.add(*secrets)

    def add(self, *secrets: str, expired: Iterable[str] = ()) -> None:
        """Mask these as well from now on, and forget those that have expired: each one costs time in every line."""
        self._secrets.difference_update(expired)
        self._secrets.update(secrets)
        forms = forms_of(self._secrets)
        self._finder = FormFinder(forms)
        # Of these a break is part, so that they are not in a text without breaks.
        self._broken = FormFinder(form for form in forms if any(sign in form for sign in SIGNS))
        self._longest = len(forms[0]) if forms else 0
        # Any other form that has begun but not ended lies behind the place at which the text would be cut anyway.
        self._unbounded = [form for form in forms if len(form) > _KEPT_OF_LONG_LINE or "\n" in form or "\r" in form]

    def feed(self, text: str) -> str:
        """Take the next piece and return what is safe to show."""
        self._held += text
        cut, length = _line_start(self._held, len(self._held)), len(self._held)
        if length - cut > LONGEST_HELD_LINE:
            cut = length - _KEPT_OF_LONG_LINE
        if cut == 0:
            return ""
        spans = self._held_spans()
        cut = self._safe_cut(self._held, spans, cut)
        if len(self._held) - cut > self._most_held():
            # One secret after another without an end: mask it so far, and remember where the mask continues.
            cut = len(self._held) - self._most_held() // 2
        if cut:
            self._carried = max([0, *(end - cut for start, end in spans if start < cut < end)])
        released = _mask(self._held[:cut], [(start, min(end, cut)) for start, end in spans if start < cut])
        self._held = self._held[cut:]
        return released

    def flush(self) -> str:
        """Return what is still held back; the stream has ended."""
        text, spans = self._held, self._held_spans()
        self._held, self._carried = "", 0
        return _mask(text, spans)

    def redact(self, text: str) -> str:
        """Mask a whole text at once, apart from the stream."""
        return _mask(text, list(_merge(self._spans(text))))

    def _held_spans(self) -> list[Span]:
        carried = [(0, self._carried)] if self._carried else []
        return list(_merge([*carried, *self._spans(self._held)]))

    def _most_held(self) -> int:
        return max(4 * LONGEST_HELD_LINE, 4 * self._longest)

    def _spans(self, text: str) -> Iterator[Span]:
        yield from shape_spans(text)
        unbroken = UnbrokenText(text)
        if unbroken.is_same:
            yield from self._finder.spans(text)
        else:
            yield from map(unbroken.original, self._finder.spans(unbroken.text))
            yield from self._broken.spans(text)

    def _safe_cut(self, text: str, spans: list[Span], cut: int) -> int:
        cut = min(cut, self._partial_match(text), wrapped_start(text, cut, 2 * self._longest))
        while (earlier := _step_back(text, spans, cut)) < cut:
            cut = earlier
        return cut

    def _partial_match(self, text: str) -> int:
        """Find the earliest place from which the rest could grow into a secret."""
        earliest = len(text)
        for form in self._unbounded:
            for size in range(min(len(form) - 1, len(text)), len(text) - earliest, -1):
                if text.endswith(form[:size]):
                    earliest = len(text) - size
                    break
        return earliest


def _line_start(text: str, position: int) -> int:
    return max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1


def _step_back(text: str, spans: list[Span], cut: int) -> int:
    """Move a cut out of a secret, and to the line's beginning, which a shape may need."""
    outside = next((start for start, end in spans if start < cut < end), cut)
    line = _line_start(text, outside)
    return line if len(text) - line <= LONGEST_HELD_LINE else outside


def _merge(spans: Iterable[Span]) -> Iterator[Span]:
    current: Span | None = None
    for start, end in sorted(spans):
        if current is None or start >= current[1]:
            if current is not None:
                yield current
            current = (start, end)
        else:
            current = (current[0], max(current[1], end))
    if current is not None:
        yield current


def _mask(text: str, spans: list[Span]) -> str:
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += [text[position:start], MASK]
        position = end
    return "".join([*parts, text[position:]])


class KnownSecrets:
    """Secrets are added before they are used; a job that began earlier masks them from then on, too."""

    def __init__(self, *secrets: str) -> None:
        self._secrets = set(secrets)
        self._redactors: WeakSet[Redactor] = WeakSet()

    def add(self, *secrets: str) -> None:
        """Mask these as well, in every log."""
        fresh = {secret for secret in secrets if secret} - self._secrets
        if fresh:
            self._secrets |= fresh
            for redactor in self._redactors:
                redactor.add(*fresh)

    def redactor(self) -> Redactor:
        """Make a redactor for one more log."""
        made = Redactor(self._secrets)
        self._redactors.add(made)
        return made
