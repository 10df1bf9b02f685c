"""The ratios of the last whole run that was kept: what became worse since is marked."""

import json
from pathlib import Path

from benchmarks.outcome import RESULTS

BASELINE = Path(__file__).parent / "baseline.json"
WORSE = 0.8

# A ratio by the name of its figure, by benchmark; more is better.
Ratios = dict[str, dict[str, float]]


def ratios(names: list[str], results: Path = RESULTS) -> Ratios:
    """Return the ratios that these benchmarks wrote."""
    written = {name: results / f"{name}.json" for name in names}
    return {name: json.loads(path.read_text()).get("ratios", {}) for name, path in written.items() if path.exists()}


def worse(found: Ratios, kept: Ratios) -> list[str]:
    """Return a line for each ratio that is below 0.8 of the one that was kept, and for each that is missing."""
    lines = []
    for name in found.keys() & kept.keys():
        for figure, before in kept[name].items():
            now = found[name].get(figure)
            if now is None:
                lines.append(f"{name}: {figure} is missing; it was {before:g}")
            elif now < WORSE * before:
                lines.append(f"{name}: {figure} is {now:g}, {now / before:.2f} of {before:g}")
    return sorted(lines)


def show(found: Ratios, baseline: Path = BASELINE) -> None:
    """Print what is worse than in the run that was kept."""
    kept: Ratios = json.loads(baseline.read_text()) if baseline.exists() else {}
    lines = worse(found, kept)
    print(f"\nRatios below {WORSE} of the run that was kept, or missing (more is better): {len(lines) or 'none'}.")
    for line in lines:
        print(f"✗ {line}")


def keep(found: Ratios, baseline: Path = BASELINE) -> None:
    """Write the ratios of these benchmarks down; those of others stay."""
    kept: Ratios = json.loads(baseline.read_text()) if baseline.exists() else {}
    whole = {name: figures for name, figures in (kept | found).items() if figures}
    baseline.write_text(json.dumps(whole, indent=2, ensure_ascii=False, sort_keys=True) + "\n")
