"""Lists that are declared: their heads and their rows' menus."""

import reflex as rx

from app.ui.resource import Act, Column, row_menu

ROW = rx.Var("row").to(dict[str, str])


def test_head_has_the_classes_of_its_cells_that_place_it() -> None:
    """A head whose cells are out of sight would push the others aside."""
    assert Column("Last used", "used_at", "r mut num hide-s n-b").head == ("Last used", "r hide-s")


def test_cell_shows_a_field_or_what_is_made_of_the_row() -> None:
    assert 'row?.["name"]' in str(Column("Name", "name").cell(ROW))
    assert "made of it" in str(Column("Name", lambda _row: rx.el.b("made of it")).cell(ROW))


def test_row_menu_passes_the_id_and_marks_a_danger() -> None:
    act = Act("trash-2", "Remove", rx.console_log, is_danger=True)
    shown = str(row_menu(act)(ROW))
    assert 'row?.["id"]' in shown
    assert "Separator" in shown
    assert '"red"' in shown
    assert "More actions for" in shown


def test_row_menu_is_hidden_from_those_who_may_do_nothing() -> None:
    act = Act("pencil", "Edit", rx.console_log)
    assert "may_do" in str(row_menu(act, may=rx.Var("may_do").bool())(ROW))
    assert "is_here" in str(row_menu(Act("x", "End", act.event, lambda row: row["is_here"]))(ROW))
