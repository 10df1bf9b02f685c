"""Building SQL from a request: identifiers always quoted, values always bound."""

from stack.rest.errors import RestError


def quoted(identifier: str) -> str:
    """An identifier that can only be read as an identifier."""
    if "\0" in identifier:
        raise bad_nul()
    return '"' + identifier.replace('"', '""') + '"'


def qualified(schema: str, name: str) -> str:
    """A relation or function with its schema."""
    return f"{quoted(schema)}.{quoted(name)}"


class Values:
    """Collects bound values and gives each its placeholder."""

    def __init__(self) -> None:
        self.items: list[bytes | None] = []

    def bind(self, value: str | bytes | None) -> str:
        """Keep a value; its `$n`."""
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        # libpq ends a text value at the first NUL: refused, or the value would silently be another one.
        if raw is not None and b"\0" in raw:
            raise bad_nul()
        self.items.append(raw)
        return f"${len(self.items)}"


def bad_nul() -> RestError:
    """Return the error that PostgreSQL raises for a NUL byte in text."""
    return RestError(400, "22021", 'invalid byte sequence for encoding "UTF8": 0x00')
