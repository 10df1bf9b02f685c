"""Where a session was opened from: what the dashboard on this machine says, and nobody else's claim."""

import pytest

from stack.auth.sessions import Client


@pytest.mark.parametrize(
    ("peer", "claimed", "kept"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("::1", "2001:DB8::7", "2001:db8::7"),
        ("203.0.113.5", "198.51.100.1", "203.0.113.5"),
        ("fe80::1%eth0", "", "fe80::1"),
        ("unknown", "", None),
        ("127.0.0.1", "unknown", None),
        ("127.0.0.1", "10.0.0.0/8", None),
        ("127.0.0.1", "203.0.113.9:4000", None),
        ("127.0.0.1", "<script>", None),
    ],
)
def test_the_address_that_is_kept(peer: str, claimed: str, kept: str | None) -> None:
    assert Client(peer, "agent", claimed).ip == kept
