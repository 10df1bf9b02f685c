"""A form, checked field by field, and the spec that the database takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.ui.form.fields import Wrong

Form = Mapping[str, str]
T = TypeVar("T")


@dataclass
class Checked:
    """The spec, and what is wrong by field; the spec is only good when nothing is."""

    spec: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def take(self, key: str, form: Form, rule: Callable[[str], T], default: Any) -> T:
        """Apply a rule to a field and keep its complaint, if any."""
        try:
            return rule(form.get(key, ""))
        except Wrong as wrong:
            self.errors[key] = str(wrong)
            return default  # type: ignore[no-any-return]


def texts(form: object) -> dict[str, str]:
    """Keep the text fields of whatever a browser sent; anything else is treated as not filled in."""
    if not isinstance(form, Mapping):
        return {}
    return {key: value for key, value in form.items() if isinstance(key, str) and isinstance(value, str)}
