"""The errors between the dashboard and its project, named after the reaction."""


class AppError(Exception):
    """Base of everything the dashboard's services raise."""

    message = "Something went wrong."
    hint = "Nothing was changed. Try again."

    def __init__(self, message: str = "", hint: str = "") -> None:
        """Keep what a person reads: what happened, and what to do next."""
        self.message = message or self.message
        self.hint = hint or self.hint
        super().__init__(self.message)


class SignedOut(AppError):
    """The session is over: send the person to the sign-in page."""

    message = "You are signed out."
    hint = "Sign in again."


class Unreachable(AppError):
    """The project did not answer: keep what is shown, offer to try again."""

    message = "The database did not answer."
    hint = "Nothing was changed."


class Refused(AppError):
    """The database refused: show its words, change nothing."""

    def __init__(self, message: str = "", hint: str = "", code: str = "") -> None:
        """Keep the database's code beside its words."""
        self.code = code
        super().__init__(message, hint)


class NotThere(Refused):
    """The requested thing does not exist, or this person may not see it."""
