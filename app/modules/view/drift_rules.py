"""Rules of drift that is ignored, one a line: `address attribute until=2030-01-31 # reason`."""

import re
from collections.abc import Iterable, Mapping

from app.ui.form.fields import Wrong

_LINE = re.compile(
    r"(?P<address>\S+)(?:\s+(?!until=)(?P<attribute>\S+))?(?:\s+until=(?P<until>\d{4}-\d\d-\d\d))?\s+#\s*(?P<reason>\S.*)"
)


def read_drift_rules(text: str) -> list[dict[str, str]]:
    """Read the lines; what is missing of a rule is left out."""
    rules = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if not (found := _LINE.fullmatch(line)):
            raise Wrong(f'"{line[:60]}" is not a rule. Write: aws_instance.web tags.Seen until=2030-01-31 # reason')
        rules.append({name: value for name, value in found.groupdict().items() if value})
    return rules


def write_drift_rules(rules: Iterable[Mapping[str, str]]) -> str:
    return "\n".join(
        " ".join(filter(None, [
            each["address"], each.get("attribute"), each.get("until") and f"until={each['until']}", f"# {each['reason']}",
        ]))
        for each in rules
    )  # fmt: skip
