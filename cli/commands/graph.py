"""`runyard graph`: the order of modules, as a tree."""

from cli.command import Here, command, new_app
from cli.modules.graph import tree
from cli.options import AnyPath
from cli.output import plain

app = new_app("The order of modules.")


@command(app, "graph", calls=("list_dependencies",), page="Modules → Graph")
def graph(here: Here, path: AnyPath = "") -> None:
    """Draw which module depends on which."""
    found = here.api.call("list_dependencies", org=here.org.id, path=path.strip("/"))
    if here.printer.as_json:
        here.printer.document(found)
    else:
        print(plain(tree(found["modules"], found["dependencies"])) or "No modules.")
