"""Signing in, making an account, a forgotten password, an invitation."""

import reflex as rx

from app.pages import Route


def sign_in() -> rx.Component:
    """The sign-in page."""
    return rx.el.main("Sign in")


ROUTES = (Route("/login", "Sign in", sign_in),)
