"""Self-hosted: a name, what it may work on; then the token, the command, and the wait."""

from typing import Any

import reflex as rx

from app.frame.pick import picks
from app.frame.releases.dialog import file_list
from app.runners.components.dialogs import token_warning
from app.runners.components.edit import account_items
from app.runners.state.add_runner import AddRunnerState
from app.runners.view.commands import FROM_CLONE, WAYS
from app.runners.view.form import NAME_RULE
from app.ui.controls import (
    act_button,
    choice,
    code_block,
    copy_button,
    icon,
    once_line,
    page_link,
    plain_button,
    segments,
    shown_line,
    small_button,
)
from app.ui.elements import doc_link, secret, timer
from app.ui.form.elements import exact_input, field, labelled

State = AddRunnerState


def name_field() -> rx.Component:
    return rx.el.div(
        rx.el.label("Name", html_for="runner-name"),
        rx.input(
            id="runner-name",
            default_value=State.name,
            placeholder="build-host-03",
            on_change=State.set_name.debounce(150),
            # Anyone who clicks a button right after typing leaves the field first: the button must not overtake the name.
            on_blur=State.set_name,
            color_scheme=rx.cond(State.name_problem != "", "red", "indigo"),
            auto_complete="off",
            custom_attrs={"spellCheck": "false", "aria-describedby": "runner-name-hint"},
        ),
        rx.cond(
            State.name_problem != "",
            rx.el.small(
                icon("circle-alert"), State.name_problem, class_name="err", id="runner-name-hint", role="alert"
            ),
            rx.el.small(NAME_RULE, id="runner-name-hint"),
        ),
        class_name="ry-f",
    )


def path_field() -> rx.Component:
    return labelled(
        "Assign to",
        # As with the name: the button must not overtake what was typed.
        exact_input(
            default_value=State.path, on_blur=State.set_path, aria_label="Assign to", **picks("groups", "modules")
        ),
        rx.el.small("A group or module. If empty, all modules. Add more later."),
    )


def _host_field(key: str, label: str, hint: str, on_change: Any, **props: Any) -> rx.Component:
    control = rx.input(
        id=f"s-{key}",
        on_change=on_change.debounce(150),
        # As with the name: the button must not overtake what was typed.
        on_blur=on_change,
        auto_complete="off",
        custom_attrs={"spellCheck": "false"},
        **props,
    )
    return field(key, label, control, State.errors, hint)


def _host_fields() -> rx.Component:
    hint = "Jobs that ask for a label go only to runners that have it."
    account = choice(
        "Service account", *account_items(State.accounts), value=State.account_id, on_change=State.set_account
    )
    return rx.fragment(
        _host_field("labels", "Labels", hint, State.set_labels, default_value="", placeholder="gpu=true region=eu"),
        rx.el.div(
            _host_field(
                "capacity", "Capacity", "Jobs at a time.", State.set_capacity, default_value="1", type="number"
            ),
            field(
                "account",
                "Service account",
                account,
                State.errors,
                rx.fragment(
                    "It can then sign in without a token. ",
                    page_link("Create an account", href="/dashboard/settings/service-accounts", class_name="ry-link"),
                ),
            ),
            class_name="ry-two",
        ),
    )


def _form() -> rx.Component:
    return rx.fragment(
        rx.el.p(
            "Runs on a machine of yours, with your credentials. It needs only outbound HTTPS. ",
            doc_link("Self-hosted setup", "self-hosted"),
            class_name="mut",
        ),
        name_field(),
        path_field(),
        _host_fields(),
        rx.el.p(
            icon("shield", class_name="mut"),
            rx.el.span(
                "It acts with the permissions of its host: give each environment its own runner, narrowly assigned."
            ),
            class_name="ry-hint ry-row",
        ),
    )


def _account_credentials() -> rx.Component:
    """The section that identifies a runner with a service account: nothing in it is a secret."""
    trust = rx.fragment(
        rx.el.p(
            "A token of one of these lets it in, read where the commands say at each sign-in:", class_name="ry-hint"
        ),
        code_block(State.trusts, "Copy the trust"),
    )
    return rx.el.section(
        rx.el.span("It signs in with its service account", class_name="ry-lab"),
        rx.el.div(
            shown_line("Runner ID", State.worker_id, "Copy the runner id"),
            shown_line("Client ID", State.client_id, "Copy the client id"),
            class_name="ry-code",
        ),
        rx.cond(
            State.trusts != "",
            trust,
            rx.el.p("You need the secret that was shown with the account.", class_name="ry-hint"),
        ),
        doc_link("With a service account", "runner/service-accounts"),
        class_name="ry-f",
        custom_attrs={"data-testid": "account-credentials"},
    )


def _credentials() -> rx.Component:
    return rx.el.section(
        rx.el.span("Its credentials", class_name="ry-lab"),
        rx.el.div(
            shown_line("Runner ID", State.worker_id, "Copy the runner id"),
            once_line(
                "Token",
                secret(State.worker_id, "%TOKEN%", class_name="ry-whole", custom_attrs={"data-token": ""}),
                copy_button("%TOKEN%", "Copy the token", State.copied, State.worker_id),
            ),
            class_name="ry-code",
        ),
        token_warning(),
        class_name="ry-f",
    )


def _file() -> rx.Component:
    """The choice of the file that the command installs where there is no runner yet."""
    names = rx.foreach(State.files, lambda file: rx.segmented_control.item(file["name"], value=file["name"]))
    choice = rx.segmented_control.root(
        names, value=State.file["name"], on_change=State.set_file, aria_label="Which file to install"
    )
    offered = rx.fragment(file_list(State.files), rx.cond(State.files.length() > 1, choice))
    none = rx.el.p(
        "No downloads yet: paste it in a clone of Runyard, on a machine like the one it will run on.",
        class_name="ry-hint",
    )
    return rx.cond(State.files.length() > 0, offered, none)


def _start() -> rx.Component:
    return rx.el.section(
        rx.el.span("Paste this on your machine", class_name="ry-lab"),
        segments("How to start it", {way: way for way in WAYS}, value=State.way, on_change=State.set_way),
        rx.match(State.way, *((way, _file()) for way in FROM_CLONE), rx.fragment()),
        code_block(State.command, "Copy the command", State.copied, State.worker_id),
        rx.el.p(
            "It installs the runner where it is missing, and starts it. Only outbound HTTPS is needed, and ",
            rx.el.span("tofu", class_name="ry-mono"),
            ", ",
            rx.el.span("terraform", class_name="ry-mono"),
            " or ",
            rx.el.span("pulumi", class_name="ry-mono"),
            ". ",
            doc_link("Self-hosted setup", "self-hosted"),
            " · ",
            doc_link("All ways to install it", "runner"),
            class_name="ry-hint",
        ),
        class_name="ry-f",
        aria_label="Start it",
    )


def _box(mark: rx.Component, title: Any, text: Any, aside: rx.Component, class_name: str = "ry-wait") -> rx.Component:
    return rx.el.div(
        mark,
        rx.el.div(rx.el.b(title, style={"font_weight": "500"}), rx.el.small(text, class_name="sm"), class_name="grow"),
        aside,
        class_name=class_name,
    )


def _online_box() -> rx.Component:
    plan = small_button("Run a test plan", on_click=State.run_test)
    return _box(
        icon("circle-check", "", class_name="t-grn"),
        State.worker_name + " is online",
        State.arrived,
        plan,
        "ry-wait ok",
    )


def _late_box(counter: rx.Component) -> rx.Component:
    doctor = rx.el.span(
        "Run ",
        rx.el.span("runyard-worker doctor", class_name="ry-mono"),
        " on the machine. It checks address, token, clock and engines.",
    )
    return _box(icon("clock-alert", "", class_name="t-amb"), "Still nothing after 2 minutes", doctor, counter)


def heartbeat_box() -> rx.Component:
    """Wait for the first heartbeat: dashed, then green; amber after two minutes."""
    counter = timer(State.registered_at, class_name="mut num")
    waiting = _box(
        icon("loader-circle", "", class_name="ry-spin mut"),
        "Waiting for the first heartbeat",
        "Usually under 10 s after the start. You can close this: the row turns green when the runner connects.",
        counter,
    )
    boxes = rx.match(State.progress, ("online", _online_box()), ("late", _late_box(counter)), waiting)
    custom = {"data-testid": "first-heartbeat", "data-progress": State.progress}
    return rx.el.div(boxes, role="status", custom_attrs=custom)


def _registered() -> rx.Component:
    return rx.fragment(
        rx.el.div(
            icon("circle-check", "", class_name="t-grn"),
            rx.el.span(
                rx.el.b(State.worker_name, style={"font_weight": "600"}),
                " is registered. ",
                rx.el.span("Paste a command to start it.", class_name="mut"),
            ),
            class_name="ry-row",
            style={"gap": "10px"},
            custom_attrs={"data-testid": "registered"},
        ),
        _start(),
        rx.cond(State.client_id != "", _account_credentials(), _credentials()),
        heartbeat_box(),
    )


def self_tab() -> rx.Component:
    """The form; after Register the command, the credentials and the wait."""
    return rx.cond(State.worker_id == "", _form(), _registered())


def self_footer() -> rx.Component:
    """Register, then Done."""
    register = rx.fragment(
        rx.el.span(class_name="grow"),
        plain_button("Cancel", on_click=State.set_open(False)),
        act_button("Register", on_click=State.register, loading=State.is_busy),
    )
    done = rx.fragment(
        rx.cond(
            State.progress == "online",
            rx.el.span(class_name="grow"),
            rx.el.span(
                "Nothing after a minute? Run ",
                rx.el.span("runyard-worker doctor", class_name="ry-mono"),
                " there.",
                class_name="mut sm grow",
            ),
        ),
        act_button("Done", on_click=State.set_open(False)),
    )
    return rx.el.div(rx.cond(State.worker_id == "", register, done), class_name="ry-sf")
