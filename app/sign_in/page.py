"""Signing in, making an account, a forgotten password, an invitation.

Plain forms: assets/sign_in.js posts them to /auth/…, because only a route can set
the cookie. They work before, and without, the page's websocket.
"""

import reflex as rx

from app.frame.card import card, line_below
from app.frame.card import submit as submit_button
from app.frame.layout import Route
from app.ui.controls import act_button, icon
from app.ui.elements import LinkNoteElement
from app.ui.panel import problem_line


def _field(
    name: str, label: str, kind: str, complete: str, aside: rx.Component | None = None, hint: str = ""
) -> rx.Component:
    line = rx.el.div(
        rx.el.label(label, html_for=name, class_name="ry-lab grow"), aside or rx.fragment(), class_name="ry-row"
    )
    return rx.el.div(
        line,
        rx.input(
            id=name,
            name=name,
            type=kind,
            auto_complete=complete,
            required=complete != "current-password",
            min_length=8 if complete == "new-password" else 0,
            placeholder="you@example.com" if kind == "email" else "",
            custom_attrs={"spellCheck": "false"},
        ),
        rx.el.small(hint) if hint else rx.fragment(),
        class_name="ry-f",
    )


def _form(action: str, *fields: rx.Component, submit: str) -> rx.Component:
    return rx.el.form(
        LinkNoteElement.create(class_name="ry-link-note", custom_attrs={"role": "status"}),
        *fields,
        problem_line(),
        submit_button(submit),
        class_name="ry-form",
        custom_attrs={"data-auth": action},
        method="post",
    )


def _code() -> rx.Component:
    """Shown when the account asks for it (sign_in.js)."""
    return rx.el.div(
        rx.el.label("Code", html_for="code", class_name="ry-lab"),
        rx.input(
            id="code",
            name="code",
            auto_complete="one-time-code",
            disabled=True,
            max_length=16,
            placeholder="123 456",
            class_name="ry-mono",
            custom_attrs={"spellCheck": "false", "autoCapitalize": "none"},
        ),
        rx.el.small("Your authenticator app shows it. Lost the device? Enter a recovery code, such as abcde-fghij."),
        class_name="ry-f",
        hidden=True,
        custom_attrs={"data-code": ""},
    )


def _provider() -> rx.Component:
    """Shown when a provider speaks for the address that was typed (sign_in.js)."""
    button = act_button(rx.el.span("Continue"), type="button", class_name="ry-wide", custom_attrs={"data-leave": ""})
    other = rx.el.button(
        "Use a password instead", type="button", class_name="rt-reset ry-link", custom_attrs={"data-password": ""}
    )
    return rx.el.div(
        button, rx.el.small("Your organisation signs this address in there. ", other), class_name="ry-f ry-at-provider"
    )


def _done(title: str, text: str) -> rx.Component:
    return rx.el.div(
        icon("mail-check", "", class_name="t-grn"),
        rx.el.div(rx.el.b(title), rx.el.p(text, class_name="mut")),
        class_name="ry-row",
        hidden=True,
        role="status",
        custom_attrs={"data-done": ""},
    )


def _below(text: str, label: str, href: str) -> rx.Component:
    return line_below(text, rx.el.a(label, href=href, class_name="ry-link"))


def _email() -> rx.Component:
    return _field("email", "Email", "email", "username")


def sign_in() -> rx.Component:
    forgotten = rx.el.a("Forgot password?", href="/forgotten", class_name="ry-link sm")
    return card(
        "Sign in",
        "Start with your email.",
        _form(
            "login",
            _email(),
            submit_button("Continue", class_name="ry-at-address"),
            _provider(),
            _field("password", "Password", "password", "current-password", forgotten),
            _code(),
            submit="Sign in",
        ),
        below=rx.fragment(
            rx.el.div(_below("New here?", "Create account", "/sign-up"), class_name="ry-open"),
            rx.el.p(
                "New here? Accounts are by invitation: ask an admin for a link.", class_name="mut ry-under ry-closed"
            ),
        ),
    )


def sign_up() -> rx.Component:
    """Create an account; where accounts are by invitation, how to get one."""
    closed = card(
        "Accounts are by invitation",
        "Ask an owner or admin of your organisation for an invitation link, and open it here. "
        "Its administrator can open sign-up: RUNYARD_SIGN_UP=open, or enable_signup on hosted Supabase.",
        below=_below("Already have an account?", "Sign in", "/login"),
    )
    closed_page = rx.el.div(closed, class_name="ry-closed", custom_attrs={"data-testid": "sign-up-closed"})
    return rx.fragment(rx.el.div(_sign_up_form(), class_name="ry-open"), closed_page)


def _sign_up_form() -> rx.Component:
    return card(
        "Create account",
        "then create an organisation, or accept an invitation",
        _form(
            "signup",
            _email(),
            _field("password", "Password", "password", "new-password", hint="8 characters or more."),
            submit="Create account",
        ),
        _done("Check your email", "Follow the link there, then sign in."),
        below=_below("Already have an account?", "Sign in", "/login"),
    )


def forgotten() -> rx.Component:
    return card(
        "Reset your password",
        "A link to set a new one is sent to your address.",
        _form("forgotten", _email(), submit="Send link"),
        _done("If that address has an account, a link is on its way", "It works for one hour."),
        below=_below("", "Back to sign in", "/login"),
    )


def reset_password() -> rx.Component:
    return card(
        "New password",
        "All your other sessions end.",
        _form(
            "reset",
            _field("password", "New password", "password", "new-password", hint="8 characters or more."),
            _code(),
            submit="Set password",
        ),
    )


def invite() -> rx.Component:
    """Accept an invitation; or learn that the link lacks a part, which only the browser knows (sign_in.js)."""
    password = _field("password", "Choose a password", "password", "new-password", hint="8 characters or more.")
    whole = card(
        "You are invited",
        "",
        _form("accept", submit="Accept the invitation"),
        _form("join", password, submit="Create account and join"),
        _done("Check your email", "Follow the link there and sign in: the invitation is kept in this browser."),
        below=_below("Already have an account?", "Sign in", "/login?next=/invite"),
    )
    part = card(
        "This invitation link is incomplete",
        "A part of it is missing. Open the whole link, or ask the person who invited you for a new one.",
        below=_below("", "Back to sign in", "/login"),
    )
    return rx.fragment(
        rx.el.div(whole, class_name="ry-invited"),
        rx.el.div(part, class_name="ry-not-invited", custom_attrs={"data-testid": "no-invitation"}),
    )


ROUTES = (
    Route("/login", "Sign in", sign_in),
    Route("/sign-up", "Create account", sign_up),
    Route("/forgotten", "Reset your password", forgotten),
    Route("/reset-password", "New password", reset_password),
    Route("/invite", "Invitation", invite),
)
