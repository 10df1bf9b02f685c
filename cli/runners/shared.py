"""Shared runners: they belong to the installation, so its configuration names them and no organisation changes them."""

import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cli.client.api import Api
from cli.errors import CommandError, Missing
from wire.tokens import NewToken, make_token


class SharedRunner(BaseModel):
    """One shared runner as the file says; what it leaves out has these values."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=63)
    labels: list[str] = Field(default_factory=list)
    capacity: int = Field(default=1, ge=1, le=256)
    accepted_job_types: list[str] | None = Field(default=None, min_length=1)
    allow_multiple_instances: bool = False
    organizations: list[str] = Field(default_factory=list)

    def options(self) -> dict[str, Any]:
        """Return the options for the database; no accepted types means all of them, no organisations means all of them."""
        return self.model_dump(exclude={"name"})


class Configuration(BaseModel):
    """The file: every shared runner of the installation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shared_runners: list[SharedRunner] = Field(default_factory=list)

    @field_validator("shared_runners")
    @classmethod
    def _check_names(cls, runners: list[SharedRunner]) -> list[SharedRunner]:
        counts = Counter(runner.name.casefold() for runner in runners)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise ValueError(f"named twice: {', '.join(twice)}")
        return runners


@dataclass(frozen=True)
class Outcome:
    """The result for one shared runner; it has a token only when one was created."""

    name: str
    id: str
    action: str
    token: str | None = None


def read_configuration(file: Path) -> Configuration:
    """Read the TOML file; a mistake is named with its place."""
    try:
        return Configuration.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Missing(f"{file} cannot be read: {error}") from error
    except ValidationError as error:
        mistakes = [f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()]
        raise CommandError(f"{file} is not valid.", "\n  ".join(mistakes)) from error


def give_token(installation: Api, wanted: SharedRunner, action: str) -> Outcome:
    """Make or change one shared runner with a new token; a token that it had before is void."""
    token = make_token()
    made = _ensure(installation, wanted, token)
    return Outcome(made["name"], made["id"], action, token.text)


def apply_configuration(
    installation: Api, wanted: Configuration, rotate: frozenset[str] = frozenset()
) -> list[Outcome]:
    """Make the installation's shared runners match the file; the same again changes nothing."""
    rows = installation.all_rows("workers", is_shared="is.true", removed_at="is.null", order="name")
    existing = {row["name"].casefold(): row for row in rows}
    named = {runner.name.casefold() for runner in wanted.shared_runners}
    if unknown := rotate - {runner.name for runner in wanted.shared_runners}:
        raise CommandError(f"The file names no shared runner {', '.join(sorted(unknown))}.")
    done = []
    for runner in wanted.shared_runners:
        row = existing.get(runner.name.casefold())
        if row is None or runner.name in rotate:
            done.append(give_token(installation, runner, "made" if row is None else "given a new token"))
        else:
            done.append(_change(installation, runner, row))
    for row in rows:
        if row["name"].casefold() not in named:
            installation.call("remove_shared_worker", name=row["name"])
            done.append(Outcome(row["name"], row["id"], "removed"))
    return done


def _change(installation: Api, wanted: SharedRunner, before: dict[str, Any]) -> Outcome:
    after = _ensure(installation, wanted, None)
    # The list of its organisations is not part of the runner's row, which every organisation may read.
    before = before | {"organizations": after["organizations_before"]}
    is_same = all(before[name] == after[name] for name in wanted.options())
    return Outcome(after["name"], after["id"], "unchanged" if is_same else "changed")


def _ensure(installation: Api, wanted: SharedRunner, token: NewToken | None) -> dict[str, Any]:
    made: dict[str, Any] = installation.call(
        "ensure_shared_worker",
        name=wanted.name,
        token_hash=token.hash if token else None,
        token_hint=token.hint if token else None,
        options=wanted.options(),
    )
    return made
