"""The choices of a list's reader, which the address of its page has, too."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self
from urllib.parse import urlencode


@dataclass(frozen=True)
class Choices:
    """The fields of a subclass are texts: 'any' leaves one open, and `search` is part of a name."""

    OFFERS: ClassVar[Mapping[str, Collection[str]]]
    FORMS: ClassVar[Mapping[str, str]]

    @classmethod
    def read(cls, parameters: Mapping[str, Any]) -> Self:
        """Read them from an address; what is not on offer is left out."""
        chosen = cls()
        for each in fields(cls):
            if each.name in parameters:
                chosen = chosen.with_choice(each.name, str(parameters[each.name]))
        return chosen

    def with_choice(self, name: str, value: str) -> Self:
        """Change one choice; what is not on offer changes nothing."""
        if value not in self.OFFERS.get(name, (value,)):
            return self
        if name in self.FORMS and not re.fullmatch(self.FORMS[name], value):
            return self
        chosen: dict[str, Any] = {name: value[:100].strip() if name == "search" else value}
        return replace(self, **chosen)

    @property
    def is_open(self) -> bool:
        return self == type(self)()

    def address(self) -> str:
        """Build the query of the page's address."""
        opened = vars(type(self)())
        chosen = {name: value for name, value in vars(self).items() if value != opened[name]}
        return f"?{urlencode(chosen)}" if chosen else ""


def export_address(asked: Mapping[str, Any]) -> str:
    """Build the query of the file that has all of a list's rows, from the arguments of its call."""
    return "?" + urlencode({"search": asked["search"], "filters": json.dumps(asked["filters"])})
