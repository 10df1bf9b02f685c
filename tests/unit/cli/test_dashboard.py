"""Where the built page connects to."""

import pytest

from cli.dashboard.serve import build_fingerprint, dashboard_environment, socket_address
from stack.settings import Settings


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("", "http://localhost:3000"),
        # Reflex's own rule finds these from the page's host, so that localhost goes on working, too.
        ("https://runyard.example.com", "http://localhost:3000"),
        ("https://runyard.example.com:443/", "http://localhost:3000"),
        ("http://10.0.0.5:3000", "http://localhost:3000"),
        ("https://runyard.example.com:8443", "https://runyard.example.com:8443"),
        ("http://runyard.internal", "http://runyard.internal"),
    ],
)
def test_the_page_connects_to_where_it_is_opened(url: str, address: str) -> None:
    settings = Settings(dashboard_address=url)
    assert socket_address(settings) == address
    assert dashboard_environment(settings)["REFLEX_API_URL"] == address


def test_another_address_builds_the_page_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build_fingerprint(Settings())
    monkeypatch.setenv("RUNYARD_DASHBOARD_URL", "http://runyard.internal/")
    assert Settings().dashboard_url == "http://runyard.internal"
    assert build_fingerprint(Settings()) != before
