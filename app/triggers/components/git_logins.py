"""Logins at git providers: whose comments are commands, and the form that links one."""

import reflex as rx

from app.frame.session import SessionState
from app.triggers.state.git import GitState
from app.triggers.state.git_logins import ME, GitLoginsState, LoginView
from app.ui.controls import act_button, choice, copy_button, icon, offered, plain_button
from app.ui.dialog import alert, dialog_acts, form_sheet
from app.ui.form.elements import field, text_field
from app.ui.panel import empty, settings_panel
from app.ui.resource import Act, Column, removal, row_menu, waiting_table

State = GitLoginsState


def _name(row: rx.Var[LoginView]) -> rx.Component:
    return rx.el.div(
        rx.el.b(row["login"], class_name="ry-mono ry-medium ry-breaks"), rx.el.small(row["host"], class_name="sm")
    )


UNLINK = row_menu(
    Act("unlink", "Unlink", State.ask_remove), may=lambda row: SessionState.can_admin | row["is_mine"].to(bool)
)
COLUMNS = (
    Column("Login", _name, "n-a wrap"),
    Column("Member", "member", "wrap"),
    Column("Linked", "by", "mut hide-s"),
    Column("Actions", UNLINK, "r n-b"),
)


def logins_panel() -> rx.Component:
    link = plain_button(icon("link"), "Link login", on_click=State.add)
    text = "Link your login, and commands in comments, such as /runyard plan, run as you."
    about = "Comments of these accounts on pull requests are commands, with the rights of their member."
    none = empty("at-sign", "No logins yet", text, link)
    waiting = GitState.is_loading & (State.rows.length() == 0)
    return settings_panel(
        "Logins", about, link, waiting_table(waiting, State.rows, "Logins", COLUMNS, none, skeleton=1)
    )


def _fields() -> list[rx.Component]:
    members = choice("Member", offered(State.members), name="member", default_value=ME)
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
        removal(State, "Unlink", "Comments of this account are no longer commands.", "Unlink"),
    ]
