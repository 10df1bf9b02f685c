"""Reading PostgREST's query language character by character, with errors in its words."""

import re
from dataclasses import dataclass

from stack.rest.errors import RestError, bad_query

NAME = re.compile(r"[\w$ ]+(?:-(?!>)[\w$ ]+)*")
IDENTIFIER = re.compile(r"[\w$ ]+")
INDEX = re.compile(r"(-?\d+)(?=->|::|[.,)]|$)")
DEEPEST = 40


@dataclass(frozen=True, slots=True)
class Field:
    """A column, and the way into its json."""

    name: str
    path: tuple[tuple[str, str | int], ...] = ()

    @property
    def label(self) -> str:
        """The name of the field in a result: the last key of the way, or the column's."""
        keys = [key for _, key in self.path if isinstance(key, str)]
        return keys[-1] if keys else self.name


class Scanner:
    """A position in one query parameter."""

    def __init__(self, text: str, what: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0
        self._what = what

    def fail(self, expecting: str) -> RestError:
        """The error for the current position."""
        rest = self.text[self.position : self.position + 1]
        found = f'"{rest}"' if rest else "end of input"
        message = f'"{self._what} ({self.text})" (line 1, column {self.position + 1})'
        return bad_query(message, f"unexpected {found} expecting {expecting}")

    @property
    def at_end(self) -> bool:
        """Whether everything was read."""
        return self.position >= len(self.text)

    def peek(self, literal: str) -> bool:
        """Whether a literal comes next."""
        return self.text.startswith(literal, self.position)

    def skip(self, literal: str) -> bool:
        """Read a literal if it comes next."""
        if not self.peek(literal):
            return False
        self.position += len(literal)
        return True

    def need(self, literal: str) -> None:
        """Read a literal that must come next."""
        if not self.skip(literal):
            raise self.fail(f'"{literal}"')

    def spaces(self) -> None:
        """Read over blanks."""
        while self.position < len(self.text) and self.text[self.position] in " \t":
            self.position += 1

    def match(self, pattern: re.Pattern[str], expecting: str) -> str:
        """Read what a pattern matches."""
        found = pattern.match(self.text, self.position)
        if found is None or not found.group(0):
            raise self.fail(expecting)
        self.position = found.end()
        return found.group(0)

    def until(self, stops: str) -> str:
        """Read up to any of the given characters, or to the end."""
        start = self.position
        while self.position < len(self.text) and self.text[self.position] not in stops:
            self.position += 1
        return self.text[start : self.position]

    def quoted(self) -> str:
        """Read a value in double quotes with backslash escapes."""
        self.need('"')
        found: list[str] = []
        while not self.at_end:
            character = self.text[self.position]
            self.position += 1
            if character == '"':
                return "".join(found)
            if character == "\\" and not self.at_end:
                character = self.text[self.position]
                self.position += 1
            found.append(character)
        raise self.fail('"\\""')

    def name(self) -> str:
        """Read a field name, bare or quoted."""
        if self.peek('"'):
            return self.quoted()
        return self.match(NAME, "field name (* or [a..z0..9_$])").strip()

    def identifier(self) -> str:
        """Read a bare identifier."""
        return self.match(IDENTIFIER, "letter or digit").strip()

    def field(self) -> Field:
        """Read a field name and its json path."""
        self.spaces()
        name = self.name()
        path: list[tuple[str, str | int]] = []
        while self.peek("->"):
            arrow = "->>" if self.skip("->>") else "->"
            if arrow == "->":
                self.need("->")
            path.append((arrow, self._operand()))
        self.spaces()
        return Field(name, tuple(path))

    def _operand(self) -> str | int:
        found = INDEX.match(self.text, self.position)
        if found is None:
            return self.name()
        self.position = found.end()
        return int(found.group(1))

    def deeper(self) -> None:
        """Count a level of nesting; the recursion is bounded."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise bad_query(f'"{self._what}" is nested too deeply', f"At most {DEEPEST} levels are read")
