"""The skeleton shown in place of a table while it loads."""

from app.runners.components.table import HEADS
from app.ui.panel import skeleton_rows


def test_skeleton_rows_have_the_columns_of_the_heads() -> None:
    """A cell whose head is out of sight would be one too many, and push the heads aside."""
    [row] = skeleton_rows(HEADS, 1).children
    sides = [str(cell.class_name) for cell in row.children]
    assert [side.strip('"') for side in sides] == [side for _, side in HEADS]
    assert {"Type", "Region", "Created"} <= {label for label, _ in HEADS}
