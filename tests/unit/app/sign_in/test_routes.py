"""Where a browser is: who is connected, or what a proxy that the operator trusts says."""

import pytest
from starlette.requests import Request

from app.sign_in.routes import browser_address


def request(sent: str | None) -> Request:
    headers = [] if sent is None else [(b"x-real-ip", sent.encode())]
    return Request({"type": "http", "headers": headers, "client": ("198.51.100.7", 4000)})


@pytest.mark.parametrize("sent", [None, "203.0.113.9"])
def test_a_header_that_nobody_named_is_not_believed(sent: str | None) -> None:
    assert browser_address(request(sent), "") == "198.51.100.7"


@pytest.mark.parametrize(
    ("sent", "address"),
    [("203.0.113.9", "203.0.113.9"), ("1.1.1.1, 2001:db8::7", "2001:db8::7"), ("", ""), (None, "")],
)
def test_of_the_named_header_the_last_entry_counts(sent: str | None, address: str) -> None:
    assert browser_address(request(sent), "X-Real-IP") == address
