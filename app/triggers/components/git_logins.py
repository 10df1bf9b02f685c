"""Logins at git providers: whose comments are commands, and the form that links one."""

import reflex as rx

from app.frame.session import SessionState
from app.triggers.components.sheets import form_sheet
from app.triggers.state.git import GitState
from app.triggers.state.git_logins import GitLoginsState
from app.triggers.view.git_logins import ME, LoginView, MemberChoice
from app.ui.copy import copy_button
from app.ui.dialog import act_button, alert, dialog_acts, question
from app.ui.feedback import empty, skeleton_rows
from app.ui.form.elements import field, text_field
from app.ui.icons import icon
from app.ui.panel import menu, menu_item, settings_panel
from app.ui.table import cell, heads, table

State = GitLoginsState
HEADS = (("Login", ""), ("Member", ""), ("Linked", ""), ("Actions", "r"))


def _row(row: rx.Var[LoginView]) -> rx.Component:
    name = rx.el.div(
        rx.el.b(row["login"], class_name="ry-mono ry-medium ry-breaks"), rx.el.small(row["host"], class_name="sm")
    )
    unlink = menu(
        "More actions for " + row["name"].to(str), menu_item("unlink", "Unlink", State.ask_remove(row["id"].to(str)))
    )
    is_mine = row["is_mine"].to(bool)
    return rx.el.tr(
        cell(name, class_name="n-a wrap"),
        cell(row["member"], class_name="wrap"),
        cell(row["by"], class_name="mut hide-s"),
        cell(rx.cond(SessionState.can_admin | is_mine, unlink), class_name="r n-b"),
        role="row",
        key=row["id"],
        custom_attrs={"data-row": row["id"]},
    )


def logins_panel() -> rx.Component:
    """The logins whose comments are commands."""
    link = rx.button(icon("link"), "Link login", on_click=State.add, variant="surface", color_scheme="gray")
    none = empty(
        "at-sign",
        "No logins yet",
        "Link your login, and commands in comments, such as /runyard plan, run as you.",
        link,
    )
    waiting = GitState.is_loading & (State.rows.length() == 0)
    rows = rx.cond(waiting, skeleton_rows(HEADS, 1), rx.foreach(State.rows, _row))
    return settings_panel(
        "Logins",
        "Comments of these accounts on pull requests are commands, with the rights of their member.",
        link,
        rx.cond(waiting | (State.rows.length() > 0), table("Logins", heads(*HEADS), rows, aria_busy=waiting), none),
    )


def _member(choice: rx.Var[MemberChoice]) -> rx.Component:
    return rx.select.item(choice["name"], value=choice["id"])


def _fields() -> list[rx.Component]:
    members = rx.select.root(
        rx.select.trigger(aria_label="Member", width="100%"),
        rx.select.content(rx.foreach(State.members, _member)),
        name="member",
        default_value=ME,
    )
    who = "You prove your own with a comment. For others, check that the login is theirs: nobody else does."
    return [
        text_field("host", "Host", "github.com", State.errors, "Of the repositories' URLs.", class_name="ry-mono"),
        text_field("login", "Login", "", State.errors, "The name of the account there.", class_name="ry-mono"),
        rx.cond(SessionState.can_admin, field("member", "Member", members, State.errors, who)),
    ]


def login_dialogs() -> list[rx.Component]:
    """The form, the comment that proves a login, and the question before a link ends."""
    shown = rx.el.div(
        rx.el.span(State.comment, class_name="ry-el", custom_attrs={"data-testid": "link-comment"}),
        copy_button(State.comment, "Copy the comment"),
        class_name="ry-code ry-dialog-field ry-sec1",
    )
    return [
        form_sheet(State, "Link login", "Comments of this account are done as its member.", "Link", _fields()),
        alert(
            rx.fragment("Comment as ", State.comment_login),
            "Write this comment on any pull request of a connected repository within half an hour. It works for this "
            "login alone, so others may read it.",
            shown,
            dialog_acts(act_button(icon("check"), "Done", on_click=State.close_comment)),
            is_open=State.comment != "",
            on_escape=State.close_comment,
        ),
        question(
            is_open=State.removing != "",
            title=rx.fragment("Unlink ", State.removing, "?"),
            text="Comments of this account are no longer commands.",
            act="Unlink",
            on_act=State.remove,
            on_keep=State.keep,
        ),
    ]
