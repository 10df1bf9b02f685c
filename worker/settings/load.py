"""Loads the settings: file < secrets directory < environment < command line."""

import os
from collections.abc import Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from worker.settings import sources
from worker.settings.model import Settings
from worker.settings.sources import Layer, Problem, SettingsError, place_in

SECRET_PATHS = {
    ("Runner", "Token"),
    ("Runner", "Credentials", "ClientSecret"),
    ("Dispatcher", "Data", "RegistryPassword"),
    ("Executor", "Token"),
}
TOKENS = {("Runner", "Token"), ("Runner", "TokenFrom"), ("Executor", "Token")}
ACCOUNT = ("Runner", "Credentials")
ACCOUNT_NAMES = {(*ACCOUNT, "ClientId"), (*ACCOUNT, "ServiceAccountPath")}
ACCOUNT_PROOFS = {
    (*ACCOUNT, "ClientSecret"),
    (*ACCOUNT, "ClientSecretFrom"),
    (*ACCOUNT, "IdentityTokenFile"),
    (*ACCOUNT, "HelperCommandPath"),
}


def load_settings(
    *,
    file: Path | None = None,
    secrets_directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """Merge the four layers and validate them; SettingsError names every problem at once."""
    environ = os.environ if environ is None else environ
    problems: list[Problem] = []
    if file is None and environ.get("RUNYARD_SETTINGS"):
        file = Path(environ["RUNYARD_SETTINGS"])
    layers = [
        sources.file_layer(sources.find_file(file), problems),
        sources.secrets_layer(secret_folders(secrets_directory, environ), problems),
        sources.environment_layer(environ, problems),
        sources.option_layer(options or {}),
    ]
    settings = validate(layers, problems)
    if settings is None or problems:
        raise SettingsError(problems)
    return settings


def secret_folders(chosen: Path | None, environ: Mapping[str, str]) -> list[Path]:
    """Return the directories with secrets: Docker's, systemd's, and the chosen one last."""
    names = [sources.DEFAULT_SECRETS, environ.get("CREDENTIALS_DIRECTORY"), environ.get("RUNYARD_SECRETS")]
    return [Path(name) for name in (*names, chosen) if name]


def secret_places(environ: Mapping[str, str]) -> list[Path]:
    """Return every folder and file that secrets are read from, for those who have to keep others away from them."""
    named = (
        value
        for name, value in environ.items()
        if name.endswith("_FILE") and name[: -len("_FILE")] in sources.FLAT_NAMES
    )
    files = (*named, environ.get("RUNYARD_SETTINGS") or "", *sources.DEFAULT_FILES)
    return [*secret_folders(None, environ), *(Path(file).expanduser().absolute() for file in files if file)]


def validate(layers: Sequence[Layer], problems: list[Problem]) -> Settings | None:
    """Build the model, turning each validation error into a problem with its place."""
    settings: Settings | None = None
    try:
        settings = Settings.model_validate(reduce(merge, (layer.values for layer in layers)))
    except ValidationError as error:
        problems += [describe(detail, layers) for detail in error.errors(include_input=False)]
    problems += missing_credential(layers)
    return settings


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one layer over another: the stronger value wins, sections are merged."""
    merged = dict(below)
    for key, value in above.items():
        before = merged.get(key)
        merged[key] = merge(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def describe(detail: ErrorDetails, layers: Sequence[Layer]) -> Problem:
    """Format one validation error with the setting's name and the place that set it."""
    path = tuple(str(part) for part in detail["loc"])
    name = ".".join(path)
    if detail["type"] == "missing":
        return missing(path)
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        message = "is not a setting; `runyard-worker schema` lists them"
    return Problem(name, message, place_in(layers, path) or "default")


def missing(path: tuple[str, ...]) -> Problem:
    """Report that a setting is absent and the ways to give it."""
    flat = next((name for name, at in sources.FLAT_NAMES.items() if at[: len(path)] == path), None)
    inner = sources.FLAT_NAMES[flat] if flat else path
    variable = flat or "RUNYARD__" + "__".join(part.upper() for part in path)
    way = f"set the variable {variable}, or {'.'.join(inner)} in the settings file"
    return Problem(".".join(inner), "is not set", way)


def missing_credential(layers: Sequence[Layer]) -> list[Problem]:
    """Report what a runner lacks to prove its identity: a token, a job's credential, or both halves of a service account."""
    given = {path for layer in layers for path in layer.places}
    if given & TOKENS:
        return []
    is_named, is_proven = bool(given & ACCOUNT_NAMES), bool(given & ACCOUNT_PROOFS)
    match is_named, is_proven:
        case True, True:
            return []
        case True, False:
            message = "the service account is named, but nothing proves it"
            return [Problem("Runner.Credentials.ClientSecret", message, ways(ACCOUNT_PROOFS))]
        case False, True:
            message = "a credential is set, but not whose it is"
            return [Problem("Runner.Credentials.ClientId", message, ways(ACCOUNT_NAMES))]
    place = "set the variable WORKER_TOKEN, or Runner.Credentials for a service account"
    return [Problem("Runner.Token", "no credential is set", place)]


def ways(paths: AbstractSet[tuple[str, ...]]) -> str:
    """Name the variables, and the settings behind them, of which one is enough."""
    names = [name for name, path in sources.FLAT_NAMES.items() if path in paths]
    settings = " or ".join(".".join(sources.FLAT_NAMES[name]) for name in names)
    return f"set the variable {' or '.join(names)}, or {settings} in the settings file"


def forget_secrets(environ: MutableMapping[str, str]) -> set[str]:
    """Drop secrets from the environment once they are read, so that no child inherits them; return their names."""
    names = {name for name in environ if sources.path_of_variable(name) in SECRET_PATHS}
    for name in names:
        del environ[name]
    return names
