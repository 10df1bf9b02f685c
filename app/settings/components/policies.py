"""Policy sets: the table, and the form with the rules of one that is written here."""

import reflex as rx

from app.frame.layout import admin_button
from app.frame.session import SessionState
from app.jobs.view.checks import LEVELS
from app.settings.components.settings_page import settings_page
from app.settings.state.policies import TEST, PoliciesState
from app.ui.form.elements import Fields, form_dialog
from app.ui.panel import empty
from app.ui.resource import Act, Column, mono, removal, resource_panel, row_menu, strong

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
COLUMNS = (
    Column("Set", strong("name"), "n-a"),
    Column("Modules", mono("place"), "n-b"),
    Column("Level", "level_word", "n-c"),
    Column("Source", mono("source", "ry-breaks"), "mut hide-s"),
    Column("Actions", ACTS, "r n-d"),
)


def _fields() -> list[rx.Component]:
    fields, is_old = Fields(State), ~State.is_new
    effect = rx.match(State.level, *EFFECTS.items(), "")
    rules = fields.area("text", "Rules", "Rego, named as for conftest: deny, violation, warn, exception.", rows="12")
    folder = rx.el.p("Its rules come from a folder: change them there, and attach it again.", class_name="mut")
    return [
        fields.text("name", "Name", "Lower-case letters, digits and hyphens.", disabled=is_old),
        fields.text("path", "Group or module", "If empty, all modules.", disabled=is_old),
        fields.choice("level", "Level", {**LEVELS, TEST: "Back-test first"}, effect),
        rx.cond(State.is_folder, folder, rules),
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
            form_dialog(State, "policy set", about, _fields()),
            removal(State, "Detach", gone, "Detach policy set"),
        ],
    )
