"""Cloud-hosted: identity, region, size; then the deploying job, followed step by step."""

from typing import Any

import reflex as rx

from app.runners.components.self_form import name_field, path_field
from app.runners.state.add_runner import AddRunnerState
from app.runners.view.deployment import SIZES
from app.ui.badges import job_badge, step_mark
from app.ui.controls import act_button, choice, icon, offered, page_link, plain_button, small_button
from app.ui.elements import doc_link, since
from app.ui.form.elements import labelled
from app.ui.panel import empty

State = AddRunnerState


def _select(label: str, items: rx.Component, value: Any, on_change: Any, hint: Any) -> rx.Component:
    return labelled(label, choice(label, items, value=value, on_change=on_change), rx.el.small(hint))


def _check() -> rx.Component:
    """Offer an identity only once a runner has seen it work; before that, offer to try it."""
    words = rx.match(
        State.check,
        ("TESTING", State.check_words),
        ("BROKEN", "The last test failed: " + State.check_words),
        "Not tested yet. In a test a runner assumes the role and only reads; nothing is changed.",
    )
    mark = rx.cond(
        State.check == "TESTING", icon("loader-circle", class_name="t-blu ry-spin"), icon("plug-zap", class_name="mut")
    )
    test = small_button("Test connection", on_click=State.test_identity, disabled=State.check == "TESTING")
    note = rx.el.div(mark, rx.el.p(words), test, class_name="ry-note", role="status")
    return rx.cond(State.check == "WORKS", rx.fragment(), note)


def _input(label: str, name: str, hint: str, placeholder: str = "") -> rx.Component:
    entry = rx.input(
        aria_label=label,
        value=State.options[name],
        on_change=lambda text: State.set_option(name, text),
        placeholder=placeholder,
        width="100%",
    )
    return labelled(label, entry, rx.el.small(hint))


def _more() -> rx.Component:
    """The fields for a deployed runner's role in the cloud, and for settings that few people need to change."""
    role = "What its jobs may do in AWS. Without one they may do nothing there but protect their own task."
    return rx.el.details(
        rx.el.summary("Role, image, version and count"),
        _input("Task role", "task_role_arn", role, "arn:aws:iam::123456789012:role/deployer"),
        _input("Image", "image", "Leave empty to use the deploying runner's."),
        rx.el.div(
            _input("Version", "version", "Leave empty for the newest release."),
            _input("Tasks", "desired_count", "How many run at first.", "1"),
            class_name="ry-two",
        ),
        class_name="ry-f",
    )


def _form() -> rx.Component:
    identities = offered(State.identities)
    hint = rx.foreach(
        State.identities, lambda item: rx.cond(item["id"] == State.identity_id, item["hint"], rx.fragment())
    )
    regions = rx.foreach(State.regions, lambda region: rx.select.item(region, value=region))
    sizes = rx.fragment(*[rx.select.item(size, value=size) for size in SIZES])
    allowed = State.regions.length().to_string() + " regions allowed by this identity"
    return rx.fragment(
        rx.el.div(
            _select("Cloud identity", identities, State.identity_id, State.set_identity, hint),
            _select("Region", regions, State.region, State.set_region, allowed),
            class_name="ry-two",
        ),
        _check(),
        rx.el.div(
            name_field(),
            _select("Size", sizes, State.size, State.set_size, "One job per task: jobs are not isolated on Fargate."),
            class_name="ry-two",
        ),
        path_field(),
        rx.el.div(
            rx.switch(
                checked=State.is_scaled_to_zero,
                on_change=State.set_scaled_to_zero,
                size="1",
                aria_label="Scale to zero",
            ),
            rx.el.div(
                rx.el.span("Scale to zero", class_name="ry-lab"),
                rx.el.p(
                    "Stops when nothing is queued and starts again for the next job, in about 40 s. ",
                    doc_link("How it works", "scale-to-zero"),
                    class_name="ry-hint",
                ),
                class_name="grow",
            ),
            class_name="ry-row",
            style={"align_items": "flex-start", "gap": "12px"},
        ),
        _more(),
    )


def _step(step: Any) -> rx.Component:
    took = rx.cond(step["started_at"] != "", since(step["started_at"], step["finished_at"]))
    is_ahead = step["status"] == "PENDING"
    return rx.el.li(
        step_mark(step["status"]),
        rx.el.span(step["title"], class_name=rx.cond(is_ahead, "mut", "")),
        rx.el.span(took, class_name="mut num"),
    )


def _following() -> rx.Component:
    href = "/dashboard/jobs/" + State.job_number.to_string()
    is_removal = State.job_type == "REMOVE_WORKER"
    about = rx.match(
        State.job_status,
        ("FAILED", State.job_error + " A second try picks up what the first one created."),
        ("CANCELLED", "Cancelled. A second try picks up what the first one created."),
        ("SUCCEEDED", rx.cond(is_removal, "Everything it created was removed.", State.worker_name + " is online.")),
        "About 2 minutes in all. You can close this: the job continues.",
    )
    choices = rx.fragment(
        rx.el.span(class_name="grow"),
        rx.cond(is_removal, rx.fragment(), small_button("Roll back", on_click=State.roll_back)),
        small_button("Try again", on_click=State.retry),
    )
    has_failed = (State.job_status == "FAILED") | (State.job_status == "CANCELLED")
    return rx.el.section(
        rx.el.div(
            rx.el.h2(rx.cond(is_removal, "Rolling back ", "Deploying "), State.worker_name),
            job_badge(State.job_status),
            rx.el.span(class_name="grow"),
            page_link("Job #" + State.job_number.to_string(), href=href, class_name="ry-link", underline="none"),
            class_name="ry-ph",
        ),
        rx.el.ul(rx.foreach(State.steps, _step), class_name="ry-steps", style={"padding": "0 16px 12px"}),
        rx.el.div(rx.el.span(about), rx.cond(has_failed, choices), class_name="ry-foot"),
        class_name="ry-panel",
        role="status",
    )


def cloud_tab() -> rx.Component:
    none = empty(
        "cloud",
        "No cloud identity yet",
        "A cloud identity names an AWS role and the regions to deploy runners in.",
        page_link(plain_button("Add a cloud identity"), href="/dashboard/settings/cloud-identities"),
    )
    return rx.cond(State.identities.length() == 0, none, rx.fragment(_form(), rx.cond(State.job_id > 0, _following())))


def cloud_footer() -> rx.Component:
    """Cancel and Deploy; Close once something continues without the sheet."""
    is_begun = State.job_id > 0
    return rx.el.div(
        rx.el.span(class_name="grow"),
        plain_button(rx.cond(is_begun, "Close", "Cancel"), on_click=State.set_open(False)),
        act_button(
            rx.cond(is_begun, "Deploying", "Deploy"),
            on_click=State.deploy,
            disabled=is_begun | (State.check != "WORKS"),
        ),
        class_name="ry-sf",
    )
