"""`runyard graph`: the order of modules, as a tree."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cli.command import AnyPath, Here, command, new_app
from cli.output import plain

Row = Mapping[str, Any]

app = new_app("The order of modules.")


@command(app, "graph", calls=("list_dependencies",), page="Modules → Graph")
def graph(here: Here, path: AnyPath = "") -> None:
    """Draw which module depends on which."""
    found = here.api.call("list_dependencies", org=here.org.id, path=path.strip("/"))
    if here.printer.as_json:
        here.printer.document(found)
    else:
        print(plain(tree(found["modules"], found["dependencies"])) or "No modules.")


def tree(modules: Sequence[Row], dependencies: Sequence[Row]) -> str:
    """Each module below what it depends on; one with several producers is drawn out at the first of them."""
    below: dict[str, list[str]] = {}
    for each in dependencies:
        below.setdefault(each["producer"], []).append(each["consumer"])
    has_producer = {each["consumer"] for each in dependencies}
    labels = {each["path"]: label(each) for each in modules}
    seen: set[str] = set()
    lines: list[str] = []
    for path in (each["path"] for each in modules if each["path"] not in has_producer):
        lines += [labels.get(path, path), *_below(path, "", below, labels, seen)]
    return "\n".join(lines)


def _below(
    path: str, margin: str, below: Mapping[str, Sequence[str]], labels: Mapping[str, str], seen: set[str]
) -> Iterator[str]:
    children = sorted(below.get(path, ()))
    for child in children:
        is_last = child == children[-1]
        is_again = child in seen and bool(below.get(child))
        yield f"{margin}{'└─' if is_last else '├─'} {labels.get(child, child)}{' (see above)' if is_again else ''}"
        if not is_again:
            seen.add(child)
            yield from _below(child, margin + ("   " if is_last else "│  "), below, labels, seen)


def label(module: Row) -> str:
    """A module's path, and which of its inputs have changed."""
    changed = module.get("changed_inputs") or []
    return f"{module['path']}  (inputs changed: {', '.join(changed)})" if changed else str(module["path"])
