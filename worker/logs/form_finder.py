"""Finding many known spellings in a text at the cost of a few."""

from collections.abc import Iterable, Iterator

from worker.logs.secret_shapes import Span

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
