"""Policy sets: the table, and the form with the rules of one that is written here."""

import reflex as rx

from app.frame.layout import admin_button
from app.frame.pick import picks
from app.frame.session import SessionState
from app.jobs.components.checks import SETS
from app.jobs.view.checks import LEVELS
from app.settings.components.settings_page import settings_page
from app.settings.state.policies import COMMAND, FOLDER, RULES, TEST, PoliciesState
from app.ui.form.elements import Fields, check_field, form_dialog
from app.ui.panel import empty
from app.ui.resource import Act, Column, removal, resource_panel, row_menu

State = PoliciesState
EFFECTS = {
    "advisory": "Is shown in the review. Stops nothing.",
    "overridable": "The run waits. Somebody with policy.override overrides with a reason.",
    "mandatory": "The run is refused. There is no override: change the plan or the rule.",
    TEST: "Attaches nothing. A runner tests the rules over the plans of the last 30 days, and shows which ones they refuse.",
}
ACTS = row_menu(
    Act("pencil", "Edit", State.edit),
    Act("trash-2", "Detach", State.ask_remove, is_danger=True),
    may=SessionState.can_admin,
)
COLUMNS = (*SETS, Column("Actions", ACTS, "r n-d"))


def _fields() -> list[rx.Component]:
    fields, is_old = Fields(State), ~State.is_new
    effect = rx.match(State.level, *EFFECTS.items(), "")
    command = rx.fragment(
        fields.area("command", "Command", "Reads {plan}, {run} or {code}; leaves SARIF or cost.json in {results}."),
        check_field("May reach the network", name="has_network", default_checked=State.chosen["has_network"].to(bool)),
    )
    rules = fields.area("text", "Rules", "Rego, named as for conftest: deny, violation, warn, exception.", rows="12")
    folder = rx.el.p("It comes from a folder: change the files there, and attach it again.", class_name="mut")
    return [
        fields.text("name", "Name", "Lower-case letters, digits and hyphens.", disabled=is_old),
        fields.text("path", "Group or module", "If empty, all modules.", disabled=is_old, **picks("groups", "modules")),
        fields.choice("level", "Level", {**LEVELS, TEST: "Back-test first"}, effect),
        rx.cond(State.kind != FOLDER, fields.choice("kind", "Made of", {RULES: "Rules in Rego", COMMAND: "A command"})),
        rx.match(State.kind, (FOLDER, folder), (COMMAND, command), rules),
    ]


def policies() -> rx.Component:
    about = "Rules that a plan must pass, checked on the runner after the plan. Sets add up: a lower one weakens no higher one."
    text = (
        "Attach rules to the organisation, a group or a module, and its plans are checked before anybody reviews them."
    )
    gone = "Plans that were requested before are still checked with it."
    add = admin_button("Add policy set", "plus", State.add)
    none = empty("shield-check", "No policy sets", text, add)
    return settings_page(
        "policies",
        resource_panel(State, "Policies", about, COLUMNS, none, add=add, mark=lambda row: {"data-row": row["name"]}),
        dialogs=[
            form_dialog(State, "Add policy set", about, _fields()),
            removal(State, "Detach", gone, "Detach policy set"),
        ],
    )
