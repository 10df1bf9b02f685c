"""The four sources of settings: file, secrets directory, environment, command line."""

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from worker.settings.model import DEFAULT_HOME, Settings

Keys = tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """One wrong setting: which, what is wrong with it, and where it was written."""

    setting: str
    message: str
    place: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.message} ({self.place})"


class SettingsError(Exception):
    """The settings cannot be used; `problems` names every reason at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass
class Layer:
    """The values of one source, with a place for each path."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[Keys, str] = field(default_factory=dict)

    def put(self, path: Sequence[str], value: Any, place: str) -> None:
        """Set one value below its canonical path."""
        at = self.values
        for part in path[:-1]:
            below = at.get(part)
            if not isinstance(below, dict):
                below = at[part] = {}
            at = below
        at[path[-1]] = value
        self.places[tuple(path)] = place

    def place_of(self, path: Keys) -> str | None:
        """Return the place of a path, of its nearest parent, or of what is below it."""
        for size in range(len(path), 0, -1):
            if found := self.places.get(path[:size]):
                return found
        below = [place for key, place in self.places.items() if key[: len(path)] == path]
        return ", ".join(dict.fromkeys(below)) or None


def fold(name: str) -> str:
    """Make AdditionalBinaryPaths, additional_binary_paths and ADDITIONALBINARYPATHS one name."""
    return name.replace("_", "").replace("-", "").lower()


def model_of(info: FieldInfo) -> type[BaseModel] | None:
    """Return the section behind a field, if it is one."""
    for candidate in (info.annotation, *get_args(info.annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def canonical(model: type[BaseModel], path: Sequence[str]) -> Keys:
    """Spell a path as the settings file does; what the model does not know stays as written."""
    out: list[str] = []
    at: type[BaseModel] | None = model
    for part in path:
        fields = {fold(name): (info.alias or name, info) for name, info in at.model_fields.items()} if at else {}
        usual = ("Default" if fold(part) == "default" else part, None)
        name, info = fields.get(fold(part), usual)
        out.append(name)
        at = model_of(info) if info else None
    return tuple(out)


def leaves(values: Mapping[str, Any], above: Keys = ()) -> Iterable[tuple[Keys, Any]]:
    """Walk a nested mapping, yielding what is not a mapping itself."""
    for key, value in values.items():
        path = (*above, str(key))
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path)
        else:
            yield path, value


def place_in(layers: Sequence[Layer], path: Keys) -> str | None:
    """Return where a path's effective value was written; later layers win."""
    for layer in reversed(layers):
        if place := layer.place_of(path):
            return place
    return None


NESTED_PREFIX = "RUNYARD__"
DISPATCHER_PREFIX = "RUNYARD_JOB_DISPATCHER_"
DEFAULT_FILES = (f"{DEFAULT_HOME}/settings.json", f"{DEFAULT_HOME}/settings.toml")
DEFAULT_SECRETS = "/run/secrets"

# Plain names, the ones that the dashboard prints, and Tharsis' with our prefix.
FLAT_NAMES: Mapping[str, tuple[str, ...]] = {
    "WORKER_ID": ("Runner", "Id"),
    "WORKER_TOKEN": ("Runner", "Token"),
    "WORKER_INSTANCE": ("Runner", "Instance"),
    "WORKER_ORGANIZATION_ID": ("Runner", "OrganizationId"),
    "WORKER_CLIENT_ID": ("Runner", "Credentials", "ClientId"),
    "WORKER_CLIENT_SECRET": ("Runner", "Credentials", "ClientSecret"),
    "WORKER_TOKEN_FROM": ("Runner", "TokenFrom"),
    "WORKER_CLIENT_SECRET_FROM": ("Runner", "Credentials", "ClientSecretFrom"),
    "WORKER_IDENTITY_TOKEN_FILE": ("Runner", "Credentials", "IdentityTokenFile"),
    "SUPABASE_URL": ("Server", "Url"),
    "RUNYARD_API_URL": ("Server", "Url"),
    "RUNYARD_SERVICE_ACCOUNT_PATH": ("Runner", "Credentials", "ServiceAccountPath"),
    "RUNYARD_CREDENTIAL_HELPER_CMD_PATH": ("Runner", "Credentials", "HelperCommandPath"),
    "RUNYARD_CREDENTIAL_HELPER_CMD_ARGS": ("Runner", "Credentials", "HelperCommandArgs"),
    "RUNYARD_SERVICE_DISCOVERY_HOST": ("Server", "ServiceDiscoveryHost"),
    "RUNYARD_JOB_ID": ("Executor", "JobId"),
    "RUNYARD_JOB_ATTEMPT": ("Executor", "Attempt"),
    "RUNYARD_JOB_TOKEN": ("Executor", "Token"),
    "SUPABASE_PUBLISHABLE_KEY": ("Executor", "PublishableKey"),
}


# Secrets that are read again at each sign-in, and the setting that says from where.
PLACES: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("Runner", "Token"): ("Runner", "TokenFrom"),
    ("Runner", "Credentials", "ClientSecret"): ("Runner", "Credentials", "ClientSecretFrom"),
}


def path_of_variable(name: str) -> tuple[str, ...] | None:
    """Return the setting that a variable names, or none if it is not ours."""
    if name in FLAT_NAMES:
        return FLAT_NAMES[name]
    if name.upper().startswith(NESTED_PREFIX):
        return canonical(Settings, name[len(NESTED_PREFIX) :].split("__"))
    if name.startswith(DISPATCHER_PREFIX):
        rest = name.removeprefix(DISPATCHER_PREFIX)
        if rest == "TYPE":
            return canonical(Settings, ("Dispatcher", "Type"))
        return canonical(Settings, ("Dispatcher", "Data", rest.removeprefix("DATA_")))
    return None


def find_file(chosen: Path | None) -> Path | None:
    """Return the settings file to read: the chosen one, else a default that exists."""
    if chosen is not None:
        return chosen.expanduser()
    candidates = (Path(name).expanduser() for name in DEFAULT_FILES)
    return next((path for path in candidates if path.is_file()), None)


def parse_file(path: Path) -> dict[str, Any]:
    """Parse a JSON or TOML file, judged by its suffix."""
    text = path.read_text(encoding="utf-8")
    values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    if not isinstance(values, dict):
        raise TypeError("the top of the file must be an object")
    return values


def file_layer(path: Path | None, problems: list[Problem]) -> Layer:
    """Read the settings file; a file that cannot be read is one problem."""
    layer = Layer("file")
    if path is None:
        return layer
    try:
        values = parse_file(path)
    except (OSError, ValueError, TypeError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        problems.append(Problem("settings file", reason, str(path)))
        return layer
    values.pop("$schema", None)
    for parts, value in leaves(values):
        layer.put(canonical(Settings, parts), value, f"{path}, {'.'.join(parts)}")
    return layer


def secrets_layer(folders: Iterable[Path], problems: list[Problem]) -> Layer:
    """Read a directory with one file per variable; files with other names are not ours."""
    layer = Layer("secrets")
    for folder in folders:
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            path = path_of_variable(file.name)
            if path and file.is_file():
                read_secret(layer, file, path, f"file {file}", problems)
    return layer


def read_secret(layer: Layer, file: Path, path: tuple[str, ...], place: str, problems: list[Problem]) -> None:
    """Put the content of a file that is named like a variable, or by a `_FILE` variable."""
    try:
        layer.put(path, file.expanduser().read_text(encoding="utf-8").rstrip("\r\n"), place)
        remember_place(layer, path, f"file:{file}", place)
    except PermissionError:
        remedy = f"user {os.getuid()}, as whom the runner runs, may not read it; give them the file (chown)"
        problems.append(Problem(".".join(path), remedy, place))
    except (OSError, UnicodeDecodeError) as error:
        problems.append(Problem(".".join(path), f"cannot be read: {error}", place))


def environment_layer(environ: Mapping[str, str], problems: list[Problem]) -> Layer:
    """Read the variables; `<NAME>_FILE` names a file to read the value from."""
    layer = Layer("environment")
    for name, value in sorted(environ.items()):
        if path := path_of_variable(name):
            # A compose file's `WORKER_INSTANCE=` means "not set", not an empty name.
            if value != "":
                layer.put(path, value, f"environment variable {name}")
                # Said here, it is not read from a file that another layer names.
                remember_place(layer, path, "", f"environment variable {name}")
        elif name.endswith("_COMMAND") and (path := PLACES.get(FLAT_NAMES.get(name.removesuffix("_COMMAND"), ()))):
            layer.put(path, f"command:{value}", f"environment variable {name}")
        elif name.endswith("_FILE") and (path := FLAT_NAMES.get(name.removesuffix("_FILE"))):
            read_secret(layer, Path(value), path, f"environment variable {name}={value}", problems)
    return layer


def remember_place(layer: Layer, path: tuple[str, ...], source: str, place: str) -> None:
    """Note where a secret is read from again, if it is one."""
    if path in PLACES and PLACES[path] not in layer.places:
        layer.put(PLACES[path], source, place)


def option_layer(options: Mapping[str, Any]) -> Layer:
    """Read the command line's options, given as `Section.Name` to value."""
    layer = Layer("command line")
    for name, value in options.items():
        if value is not None:
            path = canonical(Settings, name.split("."))
            layer.put(path, value, f"command line, {'.'.join(path)}")
    return layer
