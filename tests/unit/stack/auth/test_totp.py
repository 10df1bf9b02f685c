"""One-time passwords: the RFC's own figures, a clock that is a little off, and the address that apps read."""

import base64
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree as ET

import pytest

from stack.auth.factors import address_of, code_of, matching_step, new_secret, picture_of, step_at

# RFC 6238, appendix B, SHA-1; the last six of its eight digits.
SECRET = base64.b32encode(b"12345678901234567890").decode()
FIGURES = [
    (59, "287082"),
    (1111111109, "081804"),
    (1111111111, "050471"),
    (1234567890, "005924"),
    (2000000000, "279037"),
    (20000000000, "353130"),
]


@pytest.mark.parametrize(("seconds", "code"), FIGURES)
def test_the_figures_of_the_rfc(seconds: int, code: str) -> None:
    assert code_of(SECRET, step_at(seconds)) == code
    assert matching_step(SECRET, code, seconds) == step_at(seconds)


@pytest.mark.parametrize(("off", "is_right"), [(-60, False), (-30, True), (0, True), (30, True), (60, False)])
def test_a_clock_may_be_one_step_off(off: int, is_right: bool) -> None:
    code = code_of(SECRET, step_at(1_000_000_000 + off))
    assert (matching_step(SECRET, code, 1_000_000_000) is not None) is is_right


@pytest.mark.parametrize(
    "code", ["", "1", "28708", "2870822", " 287082", "२८७०८२", "28708a", "\x00", "x" * 10_000, "\ud800"]
)
def test_an_invalid_code_matches_no_step(code: str) -> None:
    assert matching_step(SECRET, code, 59) is None


def test_a_secret_is_new_each_time_and_long_enough() -> None:
    assert len(base64.b32decode(new_secret())) == 20
    assert len({new_secret() for _ in range(50)}) == 50


def test_the_address_names_issuer_and_account() -> None:
    parts = urlsplit(address_of(SECRET, "Example & Sons: ops", "dana+ci@example.org"))
    assert (parts.scheme, parts.netloc) == ("otpauth", "totp")
    assert parts.path == "/Example%20%26%20Sons%3A%20ops:dana%2Bci@example.org"
    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
    assert asked == {
        "algorithm": "SHA1", "digits": "6", "period": "30", "secret": SECRET, "issuer": "Example & Sons: ops",
    }  # fmt: skip


def test_the_picture_is_svg_that_fits_into_an_address() -> None:
    drawn = picture_of(address_of(SECRET, "Runyard", "dana@example.org"))
    assert ET.fromstring(drawn).tag.endswith("svg")
    assert "#" not in drawn
