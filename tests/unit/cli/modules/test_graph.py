"""Dependencies as a tree and as DOT."""

from cli.modules.graph import dot, tree


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


def test_dot_quotes_names_and_labels_bindings() -> None:
    found = dot([{"path": 'a"b'}], [edge("a", "b", vpc="id")])
    assert '  "a\\"b";' in found
    assert '  "a" -> "b" [label="id → vpc"];' in found
