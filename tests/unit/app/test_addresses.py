"""Addresses name the organisation, in every link that a page has."""

import re

import pytest

from app.app import FRAMED
from app.frame import not_found
from app.frame.layout import Route
from app.ui.controls import at, organisation_in, within

# A link that is written as a page's inner address: React's router, or the browser, would go there.
PLAIN = re.compile(r"""(?:to|href):\s*\(?["']/dashboard[^"']*""")


@pytest.mark.parametrize(
    "route", [route for route in FRAMED if route not in not_found.ROUTES], ids=lambda route: route.path
)
def test_every_link_of_a_page_leads_to_the_organisation_of_its_tab(route: Route) -> None:
    assert PLAIN.findall(str(route.build().render())) == []


def test_an_inner_address_becomes_one_of_an_organisation() -> None:
    assert within("platform", "/dashboard/jobs/7?tab=log") == "/o/platform/jobs/7?tab=log"
    assert within("", "/dashboard/jobs") == "/dashboard/jobs"
    assert within("platform", "/docs/dashboard/") == "/docs/dashboard/"
    assert organisation_in("/o/platform/jobs/7") == "platform"
    assert organisation_in("/dashboard/o/platform") == ""
    assert at("/docs/errors/") == "/docs/errors/"
