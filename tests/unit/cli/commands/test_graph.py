"""Dependencies as a tree."""

from cli.commands.graph import tree


def edge(producer: str, consumer: str, **bindings: str) -> dict[str, object]:
    return {"producer": producer, "consumer": consumer, "bindings": bindings}


MODULES = [{"path": path, "changed_inputs": []} for path in ("a", "b")] + [
    {"path": "c", "changed_inputs": ["x", "y"]}, {"path": "d", "changed_inputs": []},
]  # fmt: skip


def test_module_with_several_producers_is_drawn_out_once() -> None:
    found = tree(MODULES, [edge("a", "c"), edge("b", "c"), edge("c", "d")])
    assert found.splitlines() == [
        "a",
        "└─ c  (inputs changed: x, y)",
        "   └─ d",
        "b",
        "└─ c  (inputs changed: x, y) (see above)",
    ]
