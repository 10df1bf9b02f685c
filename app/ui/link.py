"""Links between pages. The code calls a page /dashboard/jobs/7; the browser's address names the organisation: /o/platform/jobs/7."""

import json
import re
from typing import Any

import reflex as rx

# The addresses of before lead on to those of the last organisation (app/live/lead_on.py).
INSIDE, ROUTE = "/dashboard", "/o/[organisation]"


def organisation_in(path: str) -> str:
    """Return the organisation that an address names; none in one of before."""
    found = re.match(r"/o/([^/]+)", path)
    return found[1] if found else ""


def within(organisation: str, path: str) -> str:
    """Return a page's address in an organisation."""
    return path.replace(INSIDE, f"/o/{organisation}", 1) if organisation and path.startswith(INSIDE) else path


def at(path: rx.Var[str] | str) -> rx.Var[str] | str:
    """Return a page's address in the organisation of the tab; any other address as it is."""
    if isinstance(path, str) and not path.startswith(INSIDE):
        return path
    given = str(path) if isinstance(path, rx.Var) else json.dumps(path)
    # Some pages are drawn once when they are built, where there is no tab.
    return rx.Var(f"(globalThis.runyard?.at ?? ((path) => path))({given})", _var_type=str)._replace(
        merge_var_data=path._get_all_var_data() if isinstance(path, rx.Var) else None
    )


def page_link(*children: Any, href: Any, **props: Any) -> rx.Component:
    """A link to a page of the tab's organisation, or to anywhere else."""
    return rx.link(*children, href=at(href), **props)


def number_link(number: Any, **props: Any) -> rx.Component:
    """A job's number, which leads to its page."""
    return page_link("#" + number, href="/dashboard/jobs/" + number, class_name="ry-a num", **props)
