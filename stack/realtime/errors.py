"""Errors for Realtime clients, named after the reaction they call for."""

NO_DATABASE = "Realtime was unable to connect to the project database"
SESSION_ENDED = "Your session has ended"


class RealtimeError(Exception):
    """Base of everything this server refuses."""


class MalformedFrame(RealtimeError):
    """The bytes are not a message of the negotiated version: the socket is closed."""


class TokenRefused(RealtimeError):
    """A token that proves nothing; `code` is the word hosted puts before the message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class JoinRefused(RealtimeError):
    """A join answered with an error; some refusals also end the socket."""

    def __init__(self, code: str, message: str, *, ends_socket: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.reason = f"{code}: {message}" if code else message
        self.ends_socket = ends_socket


class ChannelEnded(RealtimeError):
    """The channel receives the reason and is closed; the socket stays."""


class BindingRefused(RealtimeError):
    """postgres_changes parameters that cannot be served; not tried again."""


class DatabaseAway(RealtimeError):
    """PostgreSQL does not answer just now."""


class StreamEnded(RealtimeError):
    """The WAL stream broke; it is opened again."""
