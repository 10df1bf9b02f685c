"""Tell answers that pass from refusals: after the first the same request may succeed in a moment."""

# The caller is too quick, or something on its way is to end first; a limit that stays has RY413.
_WAIT = "RY429"
# Serialisation failures, deadlocks, lost connections, timeouts, a database that is read-only for a while (25006: a full
# disk, a failover).
_STATES = ("25006", "40", "53", "57", "08", "55P03", "PGRST00")
# Of Auth and of gateways the code may be the HTTP status, which is no SQLSTATE.
_SQLSTATE_LENGTH = 5
# A project that is restricted until a bill is paid (402), a busy or hurried one.
_STATUSES = frozenset({402, 408, 425, 429})


def is_passing(status: int, code: str) -> bool:
    """Whether to try again. Every 5xx passes, whatever the code: a function that failed or is busy, a gateway's own."""
    is_state = len(code) >= _SQLSTATE_LENGTH and code.startswith(_STATES)
    return code == _WAIT or is_state or status in _STATUSES or status >= 500
