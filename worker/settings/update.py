"""Whether the runner may replace its own program."""

from urllib.parse import urlsplit

from pydantic import Field, field_validator

from worker.settings.base import Section, WordList


class UpdateSettings(Section):
    """The runner's own update, when it is requested on the runners page."""

    enabled: bool = Field(
        default=False,
        description="Replace the one-file program with a published release when an admin asks for it, and restart.",
    )
    origins: WordList = Field(
        default_factory=list,
        description="Where a release may be fetched from, as `https://github.com`, redirects included. "
        "If empty, any https address. The project's own address always counts.",
    )

    @field_validator("origins")
    @classmethod
    def check_origins(cls, values: list[str]) -> list[str]:
        """Accept https origins, without a path."""
        for value in values:
            parts = urlsplit(value)
            if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query:
                raise ValueError(f"{value!r} is not an origin such as https://github.com")
        return values
