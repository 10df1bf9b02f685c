"""Members and roles, and invitations by link."""

from typing import Any

import reflex as rx

from app.frame.layout import admin_button
from app.frame.session import SessionState
from app.settings.components.settings_page import settings_page
from app.settings.state.members import MembersState, Person, TeamsState
from app.settings.view.members import ROLES, MemberRow
from app.ui.badges import pill
from app.ui.controls import act_button, choice, icon, plain_button, secret_line
from app.ui.dialog import alert, dialog, dialog_acts, question
from app.ui.elements import ago
from app.ui.form.elements import dialog_form, labelled, problem_line, text_field
from app.ui.panel import empty, menu, menu_item, settings_panel
from app.ui.resource import Act, Column, moment, removal, resource_panel, row_menu, strong, waiting_table
from app.ui.view import ROLE_WORDS

TEAM_COLUMNS = (
    Column("Name", strong("name"), "n-a"),
    Column("Members", "count", "r num n-b"),
    Column("Created", moment("since"), "r mut num n-c"),
    Column(
        "Actions",
        row_menu(
            Act("users", "Members", TeamsState.choose),
            Act("trash-2", "Delete", TeamsState.ask_remove, is_danger=True),
            may=SessionState.can_admin,
        ),
        "r n-d",
    ),
)

State = MembersState


def _role(row: rx.Var[MemberRow]) -> rx.Component:
    items = [rx.select.item(role.capitalize(), value=role) for role in ROLES]
    select = rx.select.root(
        rx.select.trigger(aria_label="Role of " + row["email"].to(str), class_name="ry-role"),
        rx.select.content(*items),
        value=row["role"],
        on_change=lambda role: State.set_role(row["key"].to(str), role),
    )
    plain = rx.el.span(row["role"].to(str).capitalize())
    return rx.cond(row["can_change"] & ~row["is_invited"].to(bool), select, plain)


def _badge(row: rx.Var[MemberRow]) -> rx.Component:
    invited = pill(rx.cond(row["is_expired"], "expired", "invited"), custom_attrs={"data-testid": "invited"})
    you = rx.el.span("you", class_name="mut")
    return rx.cond(row["is_invited"], invited, rx.cond(row["is_me"], you))


def _menu(row: rx.Var[MemberRow]) -> rx.Component:
    label = rx.cond(row["is_invited"], "Withdraw", rx.cond(row["is_me"], "Leave", "Remove"))
    items = menu(
        "More actions for " + row["email"].to(str),
        menu_item("user-minus", label, State.ask_remove(row["key"].to(str)), color_scheme="red"),
    )
    return rx.cond(row["can_change"] | row["is_me"].to(bool), items)


def _two_step(row: rx.Var[MemberRow]) -> rx.Component:
    """Whether two steps are needed: what an admin looks after."""
    words = row["two_step"]
    on = rx.el.span(icon("shield-check", class_name="t-grn"), words, class_name="ry-row c6")
    off = rx.el.span(icon("shield-off"), words, class_name="ry-row c6 mut")
    return rx.match(words, ("On", on), ("Off", off), rx.el.span(words, class_name="mut"))


def _signed_in(row: rx.Var[MemberRow]) -> rx.Component:
    return rx.cond(row["signed_in_at"] != "", ago(row["signed_in_at"].to(str)), rx.el.span("–"))


def _who(row: rx.Var[MemberRow]) -> rx.Component:
    email = rx.el.span(row["email"], class_name="ry-el", title=row["email"])
    return rx.el.div(email, _badge(row), class_name="ry-row")


def _marked(row: rx.Var[MemberRow]) -> dict[str, Any]:
    return {"custom_attrs": {"data-two-step": row["two_step"]}}


ADMINS = SessionState.can_admin
COLUMNS = (
    Column("Email", _who, "n-a"),
    Column("Role", _role, "n-b c-xl"),
    Column("Two-step", _two_step, "hide-s c-m", _marked, when=ADMINS),
    Column("Last sign-in", _signed_in, "r mut num hide-s c-l", when=ADMINS),
    Column("Since", moment("since"), "r mut num n-c c-l"),
    Column("Actions", _menu, "r n-d c-s"),
)


def _invite_fields() -> rx.Component:
    problem = problem_line("email", State.email_problem)
    roles = {role: f"{role.capitalize()}: {ROLE_WORDS[role]}" for role in ROLES}
    email = rx.input(
        id="invite-email",
        type="email",
        default_value=State.email,
        on_blur=State.set_email,
        placeholder="name@example.org",
        auto_complete="off",
    )
    hint = rx.cond(State.email_problem != "", problem, rx.el.small("They sign in with this address."))
    role = choice("Role", roles, value=State.role, on_change=State.choose_role, width=None)
    return rx.el.div(
        rx.el.div(rx.el.label("Email", html_for="invite-email"), email, hint, class_name="ry-f"),
        labelled("Role", role),
        class_name="ry-dialog-body ry-dialog-field",
    )


def _link() -> rx.Component:
    link = secret_line("Link", State.invited_id, "Copy the link")
    once = rx.el.small("It is shown once, works for 7 days and only for this address.", class_name="ry-hint")
    return rx.el.div(rx.el.div(link, class_name="ry-code"), once, class_name="ry-dialog-body ry-dialog-field")


def _invite_dialog() -> rx.Component:
    is_done, subject = State.invited_id != "", "Join " + SessionState.org_name + " on Runyard"
    close = rx.dialog.close(plain_button(rx.cond(is_done, "Done", "Cancel")))
    letter = {"data-mail": State.invited_email, "data-owner": State.invited_id, "data-subject": subject}
    mail = act_button(icon("mail"), "Compose email", custom_attrs=letter)
    return dialog(
        rx.cond(is_done, "Send this link to " + State.invited_email, "Invite member"),
        "You send them the link yourself, by email or chat.",
        rx.cond(is_done, _link(), _invite_fields()),
        dialog_acts(close, rx.cond(is_done, mail, act_button("Create invite link", on_click=State.invite))),
        is_open=State.is_inviting,
        on_open_change=State.close_invite,
        width="480px",
    )


def members() -> rx.Component:
    gone = question(
        is_open=State.removing != "",
        title=State.removal["title"],
        text=State.removal["text"],
        act=State.removal["act"],
        on_act=State.remove,
        on_keep=State.keep,
    )
    return settings_page(
        "members",
        resource_panel(
            State,
            "Members",
            "People with access, and what they can do.",
            COLUMNS,
            rx.fragment(),
            add=admin_button("Invite", "user-plus", State.open_invite),
            key="key",
            mark=lambda row: {"data-row": row["key"]},
            look={"class_name": "ry-fixed"},
        ),
        teams_panel(),
        dialogs=[_invite_dialog(), gone, *team_dialogs()],
    )


def teams_panel() -> rx.Component:
    text = "With one, several members get a role at a group or module together."
    none = empty("users", "No teams yet", text)
    waiting = MembersState.is_loading & (TeamsState.rows.length() == 0)
    return settings_panel(
        "Teams",
        "Members that get roles at paths together. A team itself has none until it is given access.",
        admin_button("Create team", "plus", TeamsState.add),
        waiting_table(waiting, TeamsState.rows, "Teams", TEAM_COLUMNS, none, skeleton=1),
    )


def _person(person: rx.Var[Person]) -> rx.Component:
    key, email = person["id"].to(str), person["email"].to(str)
    box = rx.checkbox(
        checked=TeamsState.chosen["members"].to(list[str]).contains(key),
        on_change=lambda is_member: TeamsState.put(key, is_member),
        aria_label=email,
    )
    return rx.el.label(box, email, class_name="ry-row c6 ry-check ry-breaks", key=key)


def team_dialogs() -> list[rx.Component]:
    names = [text_field("name", "Name", "", TeamsState.errors, "Such as sre.", required=True, max_length=63)]
    return [
        dialog_form(TeamsState, "Create team", "Without members and roles at first.", names, act="Create"),
        alert(
            rx.fragment("Members of ", TeamsState.chosen["name"]),
            "They get each role that the team has. A tick counts at once.",
            rx.el.div(rx.foreach(TeamsState.people, _person), class_name="ry-dialog-form ry-ticks wide"),
            dialog_acts(act_button("Done", on_click=TeamsState.close)),
            is_open=TeamsState.is_choosing,
            on_escape=TeamsState.close,
        ),
        removal(TeamsState, "Delete", "Its members lose the roles that it has. They stay members.", "Delete team"),
    ]
