"""The checked answers of an identity provider: discovery document, keys, answers to codes, ID tokens (OIDC Core 3.1.3.7)."""

import asyncio
import base64
import binascii
import socket
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import orjson
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey, import_key

MOST_BYTES = 512 * 1024
SECONDS = 8.0


class ProviderFault(Exception):
    """The answer of a provider that nobody can be signed in with; `away` where it gave none of its own."""

    def __init__(self, detail: str, *, away: bool = False) -> None:
        super().__init__(detail)
        self.away = away


Resolve = Callable[[str], Iterable[str]]


def _addresses(host: str) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Outgoing:
    """Fetches JSON from addresses that an organisation's owner wrote: they must not lead into this network."""

    def __init__(self, own_hosts: Iterable[str] = (), resolve: Resolve = _addresses) -> None:
        self._own_hosts = frozenset(own_hosts)
        self._resolve = resolve

    async def check(self, url: str) -> str | None:
        """Return the address to connect to; None for a host that the operator named, which is resolved as usual."""
        parts = urlsplit(url)
        if parts.hostname is None or parts.username is not None:
            raise ProviderFault(f"{url[:200]!r} is not an address")
        if self._own_hosts & {parts.hostname, parts.netloc}:
            return None
        if parts.scheme != "https":
            raise ProviderFault(f"{url[:200]!r} is not an https address")
        try:
            found = await asyncio.to_thread(self._resolve, parts.hostname)
            addresses = [ip_address(address.partition("%")[0]) for address in found]
        except (OSError, ValueError, UnicodeError) as error:
            raise ProviderFault(f"the host {parts.hostname} does not resolve", away=True) from error
        if not addresses or not all(address.is_global and not address.is_multicast for address in addresses):
            detail = "RUNYARD_FUNCTIONS_ALLOW_NET names hosts inside this network"
            raise ProviderFault(f"the host {parts.hostname} resolves to a private address; {detail}")
        return str(addresses[0])

    async def json(self, method: str, url: str, **request: Any) -> tuple[int, dict[str, Any]]:
        """Send one request and return status and object."""
        try:
            async with asyncio.timeout(SECONDS):
                status, kind, body = await self._send(method, url, request)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError) as error:
            raise ProviderFault(f"{url[:200]}: no answer ({type(error).__name__})", away=True) from error
        try:
            found = orjson.loads(body)
        except ValueError as error:
            away = status >= 500 or status == 429
            raise ProviderFault(f"{url[:200]}: {status} with {kind[:60]!r}, not JSON", away=away) from error
        if not isinstance(found, dict):
            raise ProviderFault(f"{url[:200]}: {status} without a JSON object")
        return status, found

    async def _send(self, method: str, url: str, request: dict[str, Any]) -> tuple[int, str, bytes]:
        address = await self.check(url)
        target, headers = httpx.URL(url), {"accept": "application/json", **request.pop("headers", {})}
        extensions = {}
        if address is not None:
            # The name could resolve to another address a moment later.
            headers["host"], extensions = target.netloc.decode(), {"sni_hostname": target.host}
            target = target.copy_with(host=address)
        async with (
            httpx.AsyncClient(trust_env=False, timeout=SECONDS) as client,
            client.stream(method, target, headers=headers, extensions=extensions, **request) as answer,
        ):
            return answer.status_code, answer.headers.get("content-type", ""), await _read(answer, url)


async def _read(answer: httpx.Response, url: str) -> bytes:
    body = bytearray()
    async for part in answer.aiter_bytes():
        body += part
        if len(body) > MOST_BYTES:
            raise ProviderFault(f"{url[:200]}: more than {MOST_BYTES} bytes")
    return bytes(body)


# Public-key algorithms only: with HS256 a public key could be used as the secret.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
SKEW_SECONDS = 60
CACHE_SECONDS = 600
# An unknown key asks for the keys again, but a stranger's tokens must not ask all the time.
RELOAD_SECONDS = 10
LONGEST_TOKEN = 256 * 1024
SHORTEST_RSA = 2048
Key = RSAKey | ECKey | OKPKey


@dataclass(frozen=True)
class Provider:
    """A provider as one sign-in uses it."""

    identifier: str
    issuer: str
    discovery_url: str
    client_id: str
    client_secret: str
    audiences: tuple[str, ...] = ()
    skips_nonce: bool = False


@dataclass(frozen=True)
class Tokens:
    """The answer to a code or to a refresh token."""

    id_token: str
    access_token: str
    refresh_token: str


class RefusedGrant(ProviderFault):
    """The provider itself refused a code or a refresh token."""


class Oidc:
    """Asks providers; documents and keys are kept for a while."""

    def __init__(self, outgoing: Outgoing, now: Callable[[], float] = time.time) -> None:
        self._outgoing = outgoing
        self._now = now
        self._documents: dict[str, tuple[float, dict[str, Any]]] = {}
        self._keys: dict[str, tuple[float, dict[str, Key]]] = {}

    async def discover(self, provider: Provider) -> dict[str, Any]:
        """The discovery document, which must be the issuer's own."""
        url = provider.discovery_url or f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
        kept_at, document = self._documents.get(f"{provider.issuer} {url}", (0.0, {}))
        if self._now() - kept_at < CACHE_SECONDS:
            return document
        status, document = await self._outgoing.json("GET", url)
        if status != 200:
            raise ProviderFault(f"{url}: {status}", away=status >= 500)
        if document.get("issuer") != provider.issuer:
            raise ProviderFault(f"{url}: names the issuer {str(document.get('issuer'))[:200]!r}")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            await self._outgoing.check(str(document.get(name, "")))
        self._documents[f"{provider.issuer} {url}"] = (self._now(), document)
        return document

    async def exchange(self, provider: Provider, **grant: str) -> Tokens:
        """Swap a code or a refresh token for tokens."""
        document = await self.discover(provider)
        methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        form = {**grant, "client_id": provider.client_id}
        headers = {}
        if "client_secret_basic" in methods:
            pair = f"{quote(provider.client_id, safe='')}:{quote(provider.client_secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form["client_secret"] = provider.client_secret
        url = str(document["token_endpoint"])
        status, said = await self._outgoing.json("POST", url, data=form, headers=headers)
        if status >= 500 or status == 429:
            raise ProviderFault(f"{url}: {status}", away=True)
        if status != 200:
            raise RefusedGrant(
                f"{url}: {status} {str(said.get('error'))[:60]!r} {str(said.get('error_description'))[:200]!r}"
            )
        names = ("id_token", "access_token", "refresh_token")
        return Tokens(*(said[name] if isinstance(said.get(name), str) else "" for name in names))

    async def claims(
        self, provider: Provider, tokens: Tokens, nonce: str | None, wanted: Collection[str]
    ) -> dict[str, Any]:
        """The claims of a checked ID token; those it lacks come from the provider's userinfo, for the same person."""
        # Without a nonce it is a refresh, whose answer may have no ID token (OIDC Core 12.2).
        is_refresh = nonce is None and not tokens.id_token
        claims = {} if is_refresh else await self.verify(provider, tokens.id_token, nonce)
        url = (await self.discover(provider)).get("userinfo_endpoint")
        if not isinstance(url, str) or not tokens.access_token or all(name in claims for name in wanted):
            if is_refresh:
                raise ProviderFault("the answer has neither an ID token nor a way to the claims")
            return claims
        status, found = await self._outgoing.json(
            "GET", url, headers={"authorization": f"Bearer {tokens.access_token}"}
        )
        if status != 200:
            raise ProviderFault(f"{url}: {status}", away=status >= 500)
        if not isinstance(found.get("sub"), str) or claims.get("sub", found["sub"]) != found["sub"]:
            raise ProviderFault(f"{url}: speaks of another person")
        return {**{name: found[name] for name in ("sub", *wanted) if name in found}, **claims}

    async def verify(self, provider: Provider, token: str, nonce: str | None) -> dict[str, Any]:
        """The claims of an ID token whose signature, issuer, audience, times and nonce are right."""
        header = _header(token)
        key = await self._key(provider, header.get("kid"))
        try:
            payload = jws.deserialize_compact(token, key, algorithms=ALGORITHMS).payload
            claims = orjson.loads(payload)
        except (JoseError, ValueError, TypeError) as error:
            raise ProviderFault(f"the ID token's signature or form is wrong ({type(error).__name__})") from error
        if not isinstance(claims, dict):
            raise ProviderFault("the ID token has no claims")
        self._check(provider, claims, nonce)
        return claims

    def _check(self, provider: Provider, claims: dict[str, Any], nonce: str | None) -> None:
        ours = {provider.client_id, *provider.audiences}
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        now = self._now()
        faults = {
            f"is of the issuer {str(claims.get('iss'))[:200]!r}": claims.get("iss") != provider.issuer,
            "is for another client": not any(isinstance(each, str) and each in ours for each in audiences),
            "was issued for another party": claims.get("azp", provider.client_id) not in ours,
            "names no authorised party": len(audiences) > 1 and "azp" not in claims,
            "has expired; check both clocks": _time(claims, "exp") < now - SKEW_SECONDS,
            "is from the future; check both clocks": _time(claims, "iat") > now + SKEW_SECONDS,
            "has another nonce": nonce is not None and not provider.skips_nonce and claims.get("nonce") != nonce,
            "names nobody": not isinstance(claims.get("sub"), str) or not 0 < len(claims["sub"]) <= 255,
        }
        fault = next((words for words, is_wrong in faults.items() if is_wrong), None)
        if fault is not None:
            raise ProviderFault(f"the ID token {fault}")

    async def _key(self, provider: Provider, kid: Any) -> Key:
        url = str((await self.discover(provider))["jwks_uri"])
        read_at, keys = self._keys.get(url, (0.0, {}))
        age = self._now() - read_at
        if age > CACHE_SECONDS or (_pick(keys, kid) is None and age > RELOAD_SECONDS):
            keys = await self._read_keys(url)
        key = _pick(keys, kid)
        if key is None:
            raise ProviderFault(f"{url}: has no key {str(kid)[:100]!r}")
        return key

    async def _read_keys(self, url: str) -> dict[str, Key]:
        status, document = await self._outgoing.json("GET", url)
        found = document.get("keys")
        if status != 200 or not isinstance(found, list):
            raise ProviderFault(f"{url}: {status} without keys", away=status >= 500)
        keys = {str(jwk.get("kid", "")): key for jwk in found[:100] if (key := _import(jwk)) is not None}
        self._keys[url] = (self._now(), keys)
        return keys


def _pick(keys: dict[str, Key], kid: Any) -> Key | None:
    """The key by its id; a token may leave the id out where there is one key alone."""
    if isinstance(kid, str):
        return keys.get(kid)
    return next(iter(keys.values())) if len(keys) == 1 else None


def _import(jwk: Any) -> Key | None:
    """A public key to verify with; what is none, such as one for encryption, is left out."""
    try:
        if jwk.get("use", "sig") != "sig" or jwk.get("kty") not in ("RSA", "EC", "OKP"):
            return None
        public = {name: jwk[name] for name in ("kty", "kid", "alg", "n", "e", "crv", "x", "y") if name in jwk}
        key = import_key(public)
    except (JoseError, ValueError, TypeError, AttributeError, KeyError):
        return None
    if isinstance(key, RSAKey):
        return key if key.raw_value.key_size >= SHORTEST_RSA else None
    return key if isinstance(key, (ECKey, OKPKey)) else None


def _header(token: str) -> dict[str, Any]:
    if len(token) > LONGEST_TOKEN or token.count(".") != 2:
        raise ProviderFault("the answer has no ID token of a reasonable size")
    part = token.partition(".")[0]
    try:
        header = orjson.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, binascii.Error) as error:
        raise ProviderFault("the ID token has no header") from error
    if not isinstance(header, dict):
        raise ProviderFault("the ID token has no header")
    return header


def _time(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ProviderFault(f"the ID token has no {name}")
    return float(value)
