"""Layers of settings that remember where each value came from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Path = tuple[str, ...]


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
    places: dict[Path, str] = field(default_factory=dict)

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

    def place_of(self, path: Path) -> str | None:
        """Return the place of a path, of its nearest parent, or of what is below it."""
        for size in range(len(path), 0, -1):
            if found := self.places.get(path[:size]):
                return found
        below = [place for key, place in self.places.items() if key[: len(path)] == path]
        return ", ".join(dict.fromkeys(below)) or None


def fold(name: str) -> str:
    """Make AdditionalBinaryPaths, additional_binary_paths and ADDITIONALBINARYPATHS one name."""
    return name.replace("_", "").replace("-", "").lower()


def fields_of(model: type[BaseModel]) -> dict[str, tuple[str, FieldInfo]]:
    """Map every folded name of a model to its canonical key and field."""
    return {fold(name): (info.alias or name, info) for name, info in model.model_fields.items()}


def model_of(info: FieldInfo) -> type[BaseModel] | None:
    """Return the section behind a field, if it is one."""
    for candidate in (info.annotation, *get_args(info.annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def canonical(model: type[BaseModel], path: Sequence[str]) -> Path:
    """Spell a path as the settings file does; what the model does not know stays as written."""
    out: list[str] = []
    at: type[BaseModel] | None = model
    for part in path:
        known = fields_of(at).get(fold(part)) if at else None
        if known is None:
            out.append("Default" if fold(part) == "default" else part)
            at = None
            continue
        out.append(known[0])
        at = model_of(known[1])
    return tuple(out)


def leaves(values: Mapping[str, Any], above: Path = ()) -> Iterable[tuple[Path, Any]]:
    """Walk a nested mapping, yielding what is not a mapping itself."""
    for key, value in values.items():
        path = (*above, str(key))
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path)
        else:
            yield path, value


def place_in(layers: Sequence[Layer], path: Path) -> str | None:
    """Return where a path's effective value was written; later layers win."""
    for layer in reversed(layers):
        if place := layer.place_of(path):
            return place
    return None
