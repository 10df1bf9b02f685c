"""Print the skipped tests of a JUnit report by their reason, as a table for a job's summary."""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET


def main(report: Path) -> None:
    """Count the skips by reason, the most frequent first."""
    if not report.exists():
        print("The tests did not begin.")
        return
    skips = Counter(node.get("message", "") for node in ET.parse(report).iter("skipped"))  # noqa: S314 - pytest wrote it
    print(f"{sum(skips.values())} tests skipped\n\n| tests | reason |\n|---|---|")
    for reason, count in skips.most_common():
        print(f"| {count} | {reason.replace('|', '/')} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
