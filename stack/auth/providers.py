"""The endpoints for custom OIDC providers, in the shape of GoTrue's /admin/custom-providers."""

import re
import uuid
from typing import Any
from urllib.parse import urlsplit

from psycopg.types.json import Jsonb

from stack.auth.access import Answer, Request, text_of
from stack.auth.errors import AuthError, Unsupported, validation
from stack.auth.oidc import Provider
from stack.auth.sealing import Seal
from stack.auth.store import Row, Store, Transaction
from stack.auth.users import moment

IDENTIFIER = re.compile(r"custom:[a-z0-9][a-z0-9:-]{0,41}[a-z0-9]")
LISTS = ("acceptable_client_ids", "scopes", "custom_claims_allowlist")
OBJECTS = ("attribute_mapping", "authorization_params")
SWITCHES = {"enabled": True, "pkce_enabled": True, "skip_nonce_check": False, "email_optional": False}
LENGTHS = {"name": 100, "client_id": 512, "client_secret": 2048, "issuer": 2048, "discovery_url": 2048}
# Ours to send; a provider's settings must not replace them.
RESERVED = frozenset(
    (
        "client_id", "client_secret", "redirect_uri", "response_type", "state", "nonce", "code_challenge",
        "code_challenge_method", "code_verifier", "scope", "code",
    )
)  # fmt: skip
MAPPED = frozenset(("email", "name"))
MOST_ENTRIES, LONGEST_ENTRY = 50, 200


class Providers:
    """Keeps providers; their secrets are sealed."""

    def __init__(self, store: Store, seal: Seal) -> None:
        self._store = store
        self._seal = seal

    async def find(self, tx: Transaction, identifier: str) -> Row:
        """An enabled provider for a sign-in."""
        row = (
            await tx.one("provider_by_identifier", identifier=identifier) if IDENTIFIER.fullmatch(identifier) else None
        )
        if row is None:
            raise AuthError(400, "validation_failed", "Unsupported provider: Provider could not be found")
        if not row["enabled"]:
            raise AuthError(400, "provider_disabled", "Unsupported provider: provider is not enabled")
        return row

    def opened(self, row: Row) -> Provider:
        """A provider with its secret."""
        return Provider(
            row["identifier"],
            row["issuer"],
            row["discovery_url"] or "",
            row["client_id"],
            self._seal.open(row["client_secret"]).decode(),
            tuple(row["acceptable_client_ids"]),
            row["skip_nonce_check"],
        )

    async def answer(self, request: Request, identifier: str) -> Answer:
        """Answer one request below /admin/custom-providers."""
        if identifier and not identifier.startswith("custom:"):
            raise validation("identifier must start with 'custom:' prefix, e.g. 'custom:mycompany'")
        handlers = (
            {"GET": self._show, "PUT": self._change, "PATCH": self._change, "DELETE": self._delete}
            if identifier
            else {"GET": self._list, "POST": self._create}
        )
        if request.method not in handlers:
            raise AuthError(405, "method_not_allowed", f"Method {request.method} is not allowed here")
        async with self._store.transaction() as tx:
            return await handlers[request.method](tx, request, identifier)

    async def _list(self, tx: Transaction, request: Request, _: str) -> Answer:
        kind = request.query.get("type", "oidc")
        if kind not in ("oidc", "oauth2"):
            raise validation("type must be either 'oauth2' or 'oidc'")
        rows = await tx.all("list_providers") if kind == "oidc" else []
        return Answer({"providers": [_json(row) for row in rows]})

    async def _create(self, tx: Transaction, request: Request, _: str) -> Answer:
        values = request.json()
        kind = values.get("provider_type")
        if kind == "oauth2":
            raise Unsupported("OAuth2 providers without OpenID Connect")
        if kind != "oidc":
            raise validation("provider_type must be either 'oauth2' or 'oidc'")
        found = _clean(values)
        for name in ("identifier", "name", "client_id", "client_secret", "issuer"):
            if not values.get(name):
                raise validation(f"{name} is required" + (" for OIDC providers" if name == "issuer" else ""))
        identifier = text_of(values, "identifier") or ""
        if not IDENTIFIER.fullmatch(identifier):
            raise validation("identifier must start with 'custom:' prefix, e.g. 'custom:mycompany'")
        row = await tx.one("insert_provider", id=uuid.uuid4(), identifier=identifier, **self._stored(found))
        if row is None:
            raise AuthError(400, "conflict", "A custom OAuth provider with this identifier already exists")
        return Answer(_json(row), 201)

    async def _show(self, tx: Transaction, _: Request, identifier: str) -> Answer:
        return Answer(_json(await self._must(tx, identifier)))

    async def _change(self, tx: Transaction, request: Request, identifier: str) -> Answer:
        row = await self._must(tx, identifier)
        found = self._stored({**_clean(row | {"client_secret": None}), **_clean(request.json(), partly=True)})
        found["client_secret"] = found["client_secret"] or row["client_secret"]
        return Answer(_json(await tx.one("update_provider", identifier=identifier, **found) or row))

    async def _delete(self, tx: Transaction, _: Request, identifier: str) -> Answer:
        await self._must(tx, identifier)
        await tx.do("delete_provider", identifier=identifier)
        return Answer(status=204)

    async def _must(self, tx: Transaction, identifier: str) -> Row:
        row = await tx.one("provider_by_identifier", identifier=identifier)
        if row is None:
            raise AuthError(404, "custom_provider_not_found", "Custom OAuth provider not found")
        return row

    def _stored(self, values: dict[str, Any]) -> dict[str, Any]:
        secret = values.get("client_secret")
        stored = {**values, "client_secret": self._seal.close(secret.encode()) if secret else None}
        return stored | {name: Jsonb(values[name]) for name in OBJECTS}


def _clean(values: dict[str, Any], *, partly: bool = False) -> dict[str, Any]:
    """The known fields, each of its kind and size; what is missing gets its default, or is left out."""
    found: dict[str, Any] = {name: _text(values, name, most) for name, most in LENGTHS.items()}
    for name in LISTS:
        given = values.get(name)
        is_list = isinstance(given, list) and len(given) <= MOST_ENTRIES
        if given is not None and not (is_list and all(_is_entry(each) for each in given)):
            raise validation(f"{name} must be a list of texts")
        found[name] = given or []
    for name in OBJECTS:
        found[name] = _pairs(values.get(name), name)
    for name, default in SWITCHES.items():
        if values.get(name) is not None and not isinstance(values[name], bool):
            raise validation(f"{name} must be true or false")
        found[name] = default if values.get(name) is None else values[name]
    if found["email_optional"] or not found["pkce_enabled"]:
        raise Unsupported("providers without addresses or without PKCE")
    return {name: value for name, value in found.items() if values.get(name) is not None} if partly else found


def _text(values: dict[str, Any], name: str, most: int) -> str | None:
    text = text_of(values, name)
    if text is not None and len(text) > most:
        raise validation(f"{name} must have at most {most} characters")
    is_address = name in ("issuer", "discovery_url")
    # The network that it leads to is checked at each request: names resolve to other addresses with time.
    if text and is_address and (urlsplit(text).scheme not in ("https", "http") or urlsplit(text).query or "#" in text):
        raise validation(f"{name} must be an https address")
    return text


def _is_entry(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_ENTRY and value.isprintable()


def _pairs(given: Any, name: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > MOST_ENTRIES or not all(map(_is_entry, [*given, *given.values()])):
        raise validation(f"{name} must be an object of texts")
    if name == "authorization_params" and RESERVED & given.keys():
        raise validation(f"authorization_params must not contain {', '.join(sorted(RESERVED & given.keys()))}")
    if name == "attribute_mapping" and given.keys() - MAPPED:
        raise validation(f"attribute_mapping may contain {', '.join(sorted(MAPPED))}")
    return given


def _json(row: Row) -> dict[str, Any]:
    """A provider without its secret."""
    hidden = ("client_secret", "created_at", "updated_at")
    shown = {name: value for name, value in row.items() if name not in hidden and value is not None}
    return {
        **shown,
        "id": str(row["id"]),
        "created_at": moment(row["created_at"]),
        "updated_at": moment(row["updated_at"]),
    }
