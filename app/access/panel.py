"""The panel of a group's and a module's page: who has access, from where, and why."""

import reflex as rx

from app.access.state import AccessState
from app.access.view import ICONS, AccessRow
from app.frame.session import may
from app.ui.controls import act_button, choice, icon, offered, page_link, small_button
from app.ui.dialog import alert, cancel, dialog_acts
from app.ui.form.elements import dialog_form, exact_input, field
from app.ui.panel import titled_panel
from app.ui.resource import Act, Column, removal, row_menu, rows_table

State = AccessState
MEMBERS = "/dashboard/settings/members"


def _who(row: rx.Var[AccessRow]) -> rx.Component:
    marks = [(kind, icon(name, class_name="mut")) for kind, name in ICONS.items()]
    about = rx.cond(row["about"] != "", rx.el.small(row["about"], class_name="mut"))
    return rx.el.div(
        rx.match(row["kind"], *marks, rx.fragment()),
        rx.el.div(rx.el.b(row["name"], class_name="ry-medium ry-breaks"), about, class_name="ry-access-who"),
        class_name="ry-row c6",
    )


def _from(row: rx.Var[AccessRow]) -> rx.Component:
    path = row["path"].to(str)
    link = page_link(path, href="/dashboard/modules?path=" + path, class_name="ry-a ry-mono ry-breaks")
    return rx.cond(row["is_here"], "Here", rx.cond(path == "", "The organisation", link))


COLUMNS = (
    Column("Who", _who, "n-a wrap"),
    Column("Role", "role", "n-b"),
    Column("From", _from, "mut n-c"),
    Column(
        "Actions",
        row_menu(
            Act("user-minus", "Take away", State.ask_remove, is_danger=True),
            may=lambda row: may("role.grant") & row["is_here"].to(bool),
        ),
        "r n-d",
    ),
)


def access_panel() -> rx.Component:
    """The roles that count here, those that were given here first."""
    why = rx.el.button(
        "Why may this person …?", on_click=State.set_asking(True), type="button", class_name="rt-reset ry-link"
    )
    give = small_button(icon("user-plus"), "Give access", on_click=State.add)
    more = rx.el.div(page_link(State.more, " more members", href=MEMBERS, class_name="ry-a"), class_name="ry-foot num")
    adds_up = rx.el.span(
        "Roles add up from the organisation down to here. Nothing below takes one away.", class_name="grow"
    )
    return titled_panel(
        "Access",
        rx.fragment(rx.el.span(class_name="grow"), rx.cond(may("role.grant"), give)),
        rows_table("Access", COLUMNS, State.rows),
        rx.cond(State.more > 0, more),
        rx.el.div(adds_up, why, class_name="ry-foot"),
        custom_attrs={"data-testid": "access"},
    )


def _person(key: str, placeholder: str) -> rx.Component:
    """A field that knows everybody who can be named."""
    names = rx.el.datalist(rx.foreach(State.offered, lambda each: rx.el.option(value=each)), id=f"{key}-names")
    attrs = {"list": f"{key}-names", "spellCheck": "false"}
    entry = exact_input(id=f"s-{key}", name="who", placeholder=placeholder, required=True, custom_attrs=attrs)
    return rx.fragment(entry, names)


def _give() -> rx.Component:
    who = "A member, a team or a service account."
    items = offered(State.roles, "words", "name")
    roles = choice("Role", items, key="s-role", name="role", default_value="planner")
    fields = [
        field("who", "Who", _person("who", "name@example.org, team:sre or account:ci"), State.errors, who),
        field("role", "Role", roles, State.errors, "You can give what you may do here yourself."),
    ]
    title = rx.fragment("Give access to ", State.path)
    return dialog_form(State, title, "And to everything below it.", fields, act="Give access")


def _why() -> rx.Component:
    verbs = rx.foreach(State.verbs, lambda verb: rx.select.item(verb, value=verb))
    may_do = choice("May do", verbs, key="s-verb", name="verb", default_value="job.apply")
    close = State.set_asking(False)
    answer = rx.el.p(State.why, role="status", class_name="ry-breaks", custom_attrs={"data-testid": "why"})
    form = rx.form(
        field("person", "Member", _person("person", "name@example.org"), State.errors),
        field("verb", "May do", may_do, State.errors),
        rx.cond(State.why != "", answer),
        dialog_acts(cancel(close, "Close"), act_button("Explain", type="submit")),
        on_submit=State.explain,
        class_name="ry-dialog-form",
    )
    title = rx.fragment("Why may this person act at ", State.path, "?")
    return alert(title, "Or why not, and who may.", form, is_open=State.is_asking, on_escape=close)


def access_dialogs() -> list[rx.Component]:
    effect = "The role ends here and below. Roles from above, and through other teams, stay."
    return [_give(), _why(), removal(State, "Take access away from", effect, "Take away")]
