"""Signing in at an identity provider: /authorize, /callback and the grant `pkce`, and asking the provider again while a session lives."""

import asyncio
import base64
import hmac
import logging
import re
import secrets
import uuid
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode
from weakref import WeakValueDictionary

import orjson
import psycopg
from psycopg.types.json import Jsonb

from stack.auth.access import Answer, Request, text_of
from stack.auth.errors import AuthError, validation
from stack.auth.limits import Limits
from stack.auth.mails import Mails
from stack.auth.oidc import Oidc, Provider, ProviderFault, RefusedGrant
from stack.auth.providers import Providers
from stack.auth.sealing import Seal
from stack.auth.sessions import AuthSessions
from stack.auth.settings import SignUp
from stack.auth.store import Row, Store, Transaction
from stack.auth.tokens import KeyRing
from stack.auth.users import clean_email, is_banned

CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
LARGEST_CLAIMS = 32 * 1024
ENTRA = "https://login.microsoftonline.com/"
# The claims of a session are read again before its next access token would outlive them.
DUE_SHARE, PAUSE_SECONDS = 0.8, 30.0
SAID = re.compile(r"[\x20-\x7e]{1,300}")
log = logging.getLogger("stack.auth")


class Federation:
    """The handlers of a sign-in at a provider."""

    def __init__(
        self, store: Store, sessions: AuthSessions, limits: Limits, mails: Mails, ring: KeyRing, oidc: Oidc, url: str
    ) -> None:
        self.providers = Providers(store, Seal("providers", ring.secret))
        self._store = store
        self._sessions = sessions
        self._limits = limits
        self._mails = mails
        self._ring = ring
        self._oidc = oidc
        self._seal = Seal("provider sessions", ring.secret)
        self._callback = f"{url}/auth/v1/callback"
        self._locks: WeakValueDictionary[uuid.UUID, asyncio.Lock] = WeakValueDictionary()

    async def authorize(self, request: Request) -> Answer:
        """GET /authorize: send the browser to the provider, with a state that serves once."""
        self._limits.requests.spend(request.client.address)
        query = request.query
        target = self._mails.allowed_target(query.get("redirect_to"))
        challenge, method = query.get("code_challenge", ""), query.get("code_challenge_method", "")
        if method.lower() != "s256" or not CHALLENGE.fullmatch(challenge):
            raise validation("PKCE flow requires code_challenge and the code_challenge_method s256")
        state = secrets.token_urlsafe(32)
        async with self._store.transaction() as tx:
            row = await self.providers.find(tx, query.get("provider", ""))
            await tx.do("drop_old_flows")
            await self._keep_flow(tx, f"state:{state}", row["identifier"], target, challenge)
        provider = self.providers.opened(row)
        try:
            document = await self._oidc.discover(provider)
        except ProviderFault as error:
            return _redirect(target, _failure(_translate(error, provider.identifier)))
        asked = {
            **row["authorization_params"],
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": self._callback,
            "scope": " ".join(dict.fromkeys(["openid", *(row["scopes"] or ("email", "profile"))])),
            "state": state,
            "nonce": self._derive("nonce", state),
            "code_challenge": _challenge_of(self._derive("verifier", state)),
            "code_challenge_method": "S256",
        }
        return _redirect(str(document["authorization_endpoint"]), asked, 302)

    async def callback(self, request: Request) -> Answer:
        """GET /callback: what the provider sends the browser back with; whatever is wrong goes to the page in words."""
        self._limits.requests.spend(request.client.address)
        async with self._store.transaction() as tx:
            flow = await tx.one("take_flow", hash=self._hash(f"state:{request.query.get('state', '')}"), is_done=False)
        if flow is None or not flow["is_live"]:
            error = AuthError(
                400, "bad_oauth_state", "OAuth state is invalid or was used already: begin the sign-in again"
            )
            return _redirect(self._mails.allowed_target(None), _failure(error))
        try:
            code = await self._accept(request, flow)
        except (AuthError, ProviderFault, psycopg.Error) as error:
            return _redirect(flow["redirect_to"], _failure(_translate(error, flow["provider"])))
        return _redirect(flow["redirect_to"], {"code": code})

    async def _accept(self, request: Request, flow: Row) -> str:
        """Swap the provider's code, and note the person under a code of our own."""
        async with self._store.transaction() as tx:
            row = await self.providers.find(tx, flow["provider"])
        provider, query = self.providers.opened(row), request.query
        await self._check_sender(provider, query)
        state = query["state"]
        grant = {"grant_type": "authorization_code", "code": query["code"], "redirect_uri": self._callback}
        tokens = await self._oidc.exchange(provider, **grant, code_verifier=self._derive("verifier", state))
        claims = await self._oidc.claims(provider, tokens, self._derive("nonce", state), _wanted(row))
        data = _identity(row, claims)
        code = secrets.token_urlsafe(32)
        async with self._store.transaction() as tx:
            user = await self._person(tx, row, data)
            refresh = self._seal.close(tokens.refresh_token.encode()) if tokens.refresh_token else None
            more = {"user_id": user["id"], "refresh_token": refresh}
            await self._keep_flow(
                tx, f"code:{code}", flow["provider"], flow["redirect_to"], flow["code_challenge"], **more
            )
        return code

    async def _check_sender(self, provider: Provider, query: dict[str, str]) -> None:
        """Another provider's answer is refused before its code goes anywhere (RFC 9207), then the provider's own refusal."""
        document = await self._oidc.discover(provider)
        sender = query.get("iss")
        has_to = document.get("authorization_response_iss_parameter_supported") is True
        if (sender is not None or has_to) and sender != provider.issuer:
            raise ProviderFault(f"the answer is of the issuer {str(sender)[:200]!r}")
        if query.get("error"):
            said = query["error"] if SAID.fullmatch(query["error"]) else "an error"
            raise AuthError(400, "bad_oauth_callback", f"The provider refused: {said[:60]}.", error="access_denied")
        if not query.get("code"):
            raise AuthError(400, "bad_oauth_callback", "OAuth callback with missing authorization code")

    async def _person(self, tx: Transaction, row: Row, data: dict[str, Any]) -> Row:
        """The account of an identity, as GoTrue decides it; the project's trigger on identities may still refuse."""
        known = await tx.one("identity_at", provider=row["identifier"], subject=data["sub"])
        values = {"provider": row["identifier"], "subject": data["sub"], "data": Jsonb(data)}
        if known is not None:
            user = _standing(await tx.one("user_by_id", id=known["user_id"]))
            await tx.do("renew_identity", **values)
        else:
            user = _standing(await tx.one("user_by_email", email=data["email"]) or await self._create(tx, row, data))
            await tx.do("insert_identity", user_id=user["id"], **values)
        return await tx.one("note_providers", id=user["id"]) or user

    async def _create(self, tx: Transaction, row: Row, data: dict[str, Any]) -> Row:
        options = self._mails.options
        # Whom an organisation's provider may bring in, its proved domains say.
        is_own = await tx.one("is_organization_provider", identifier=row["identifier"])
        if options.can_sign_up and options.sign_up is not SignUp.OPEN and not (is_own and is_own["is_own"]):
            await tx.one("lock_first_account")
            found = await tx.one("may_join", email=data["email"])
            is_allowed = found is not None and bool(found["is_allowed"])
        else:
            is_allowed = options.can_sign_up
        if not is_allowed:
            raise AuthError(422, "signup_disabled", "Signups not allowed for this instance")
        shown = {name: value for name, value in data.items() if name != "custom_claims"}
        app = {"provider": row["identifier"], "providers": [row["identifier"]]}
        metadata = {"app_metadata": Jsonb(app), "user_metadata": Jsonb(shown)}
        rest = {"role": "authenticated", "password": None, "is_confirmed": True, "banned_until": None}
        user = await tx.one("insert_user", id=uuid.uuid4(), email=data["email"], **metadata, **rest)
        if user is None:
            raise AuthError(409, "conflict", "The account was created a moment ago: begin the sign-in again")
        return user

    async def swap(self, request: Request) -> Answer:
        """POST /token?grant_type=pkce: the page's code and verifier become a session."""
        values = request.json()
        code, verifier = text_of(values, "auth_code") or "", text_of(values, "code_verifier") or ""
        if not code or not verifier:
            raise validation("invalid request: both auth code and code verifier should be non-empty")
        async with self._store.transaction() as tx:
            flow = await tx.one("take_flow", hash=self._hash(f"code:{code}"), is_done=True)
        if flow is None or not flow["is_live"]:
            raise AuthError(404, "flow_state_not_found", "invalid flow state, no valid flow state found")
        if not VERIFIER.fullmatch(verifier) or not hmac.compare_digest(_challenge_of(verifier), flow["code_challenge"]):
            raise AuthError(400, "bad_code_verifier", "code challenge does not match previously saved code verifier")
        async with self._store.transaction() as tx:
            user = await tx.one("user_by_id", id=flow["user_id"])
            if user is None:
                raise AuthError(404, "user_not_found", "User not found")
            session = await self._sessions.sign_in(tx, user, "oauth", request.client)
            if flow["refresh_token"]:
                session_id = self._sessions.identity(session["access_token"]).claims["session_id"]
                values = {"provider": flow["provider"], "refresh_token": flow["refresh_token"]}
                await tx.do("keep_provider_session", session_id=uuid.UUID(str(session_id)), **values)
        return Answer(session)

    async def reread(self, refresh_token: str) -> None:
        """Ask the provider about the person behind one of our refresh tokens, before it is swapped."""
        async with self._store.transaction() as tx:
            row = await tx.one("provider_session_of", token=sha256(refresh_token.encode()).hexdigest())
        if row is not None:
            await self._renew(row)

    async def keep_rereading(self, access_seconds: int) -> None:
        """Ask about every session as often as its tokens are renewed, whether somebody uses it or not."""
        while True:
            await asyncio.sleep(min(PAUSE_SECONDS, access_seconds / 4))
            try:
                await self.reread_due(access_seconds * DUE_SHARE)
            except (psycopg.Error, OSError) as error:
                log.warning("Claims could not be read again: %s", error)

    async def reread_due(self, seconds: float) -> None:
        """Ask about the sessions that were not asked about for this long."""
        async with self._store.transaction() as tx:
            rows = await tx.all("due_provider_sessions", seconds=seconds)
        for row in rows:
            await self._renew(row)

    async def _renew(self, row: Row) -> None:
        """Read the claims again. A session ends when its provider refuses it; one that is away changes nothing."""
        lock = self._locks.setdefault(row["session_id"], asyncio.Lock())
        async with lock:
            async with self._store.transaction() as tx:
                current = await tx.one("provider_session", session_id=row["session_id"])
            # Somebody else asked meanwhile: a refresh token of a provider often serves once.
            if current is None or current["refresh_token"] != row["refresh_token"]:
                return
            try:
                await self._ask_again(row)
            except (AuthError, ProviderFault, psycopg.Error) as error:
                is_away = isinstance(error, (psycopg.OperationalError, ProviderFault)) and getattr(error, "away", True)
                log.warning("Provider %s, session %s: %s", row["provider"], row["session_id"], error)
                if not is_away:
                    await self._end(row)

    async def _ask_again(self, row: Row) -> None:
        async with self._store.transaction() as tx:
            found = await self.providers.find(tx, row["provider"])
        provider = self.providers.opened(found)
        old = self._seal.open(row["refresh_token"]).decode()
        tokens = await self._oidc.exchange(provider, grant_type="refresh_token", refresh_token=old)
        kept = self._seal.close((tokens.refresh_token or old).encode())
        async with self._store.transaction() as tx:
            # First of all: the old one may be void already.
            await tx.do("renew_provider_session", session_id=row["session_id"], refresh_token=kept)
        claims = await self._oidc.claims(provider, tokens, None, _wanted(found))
        data = _identity(found, claims)
        async with self._store.transaction() as tx:
            known = await tx.one("identity_at", provider=row["provider"], subject=data["sub"])
            if known is None or known["user_id"] != row["user_id"]:
                raise RefusedGrant("the refresh token is another person's")
            await tx.do("renew_identity", provider=row["provider"], subject=data["sub"], data=Jsonb(data))

    async def _end(self, row: Row) -> None:
        async with self._store.transaction() as tx:
            values = {"session_id": row["session_id"], "provider": row["provider"]}
            await tx.do("forget_provider_sign_in", **values)
            await tx.do("end_session", session_id=row["session_id"])

    async def _keep_flow(
        self, tx: Transaction, secret: str, provider: str, target: str, challenge: str, **more: Any
    ) -> None:
        values = {"user_id": None, "refresh_token": None, **more}
        names = {"provider": provider, "redirect_to": target, "code_challenge": challenge}
        await tx.do("insert_flow", hash=self._hash(secret), **names, **values)

    def _hash(self, secret: str) -> str:
        return self._ring.digest(f"flow:{secret}")

    def _derive(self, purpose: str, state: str) -> str:
        """A value that only this sign-in has, so that it need not be kept."""
        return self._ring.digest(f"{purpose}:{state}")


def _challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")


def _wanted(row: Row) -> list[str]:
    return [row["attribute_mapping"].get("email", "email"), _verifying(row), *row["custom_claims_allowlist"]]


def _verifying(row: Row) -> str:
    """The claim for a verified address; Entra has its own, as a number, a text or a truth value."""
    return "xms_edov" if row["issuer"].startswith(ENTRA) else "email_verified"


def _identity(row: Row, claims: dict[str, Any]) -> dict[str, Any]:
    """The identity as GoTrue keeps it; only an address that the provider has verified is one."""
    mapping = row["attribute_mapping"]
    found = {name: claims.get(mapping.get(name, name)) for name in ("email", "name")}
    if not found["email"]:
        raise AuthError(422, "email_address_not_provided", "The provider names no email address")
    if claims.get(_verifying(row)) not in (True, 1, "1", "true"):
        raise AuthError(403, "provider_email_needs_verification", "The provider has not verified this email address")
    custom = {name: claims[name] for name in row["custom_claims_allowlist"] if name in claims}
    if len(orjson.dumps(custom)) > LARGEST_CLAIMS:
        raise AuthError(
            400, "bad_oauth_callback", "The provider sent too many groups: limit them to those that fill teams"
        )
    email, name = clean_email(found["email"]), str(found["name"] or "")[:200].replace("\0", "")
    named = {"name": name, "full_name": name} if name else {}
    known = {"iss": row["issuer"], "sub": claims["sub"], "provider_id": claims["sub"], "email": email}
    return {**known, **named, "email_verified": True, "phone_verified": False, "custom_claims": custom}


def _standing(user: Row | None) -> Row:
    """A user who may sign in."""
    if user is None or is_banned(user):
        raise AuthError(403, "user_banned", "User is banned")
    return user


def _translate(error: AuthError | ProviderFault | psycopg.Error, provider: str) -> AuthError:
    """Words for the person; the detail goes to the log."""
    log.warning("Sign-in through %s: %s", provider, error)
    if isinstance(error, AuthError):
        return error
    if isinstance(error, ProviderFault):
        words = (
            "The provider did not answer. Try again in a moment."
            if error.away
            else "The provider's answer is not valid."
        )
        return AuthError(502, "unexpected_failure", words)
    if (error.sqlstate or "").startswith("RY"):
        return AuthError(
            403, "unexpected_failure", f"{error.diag.message_primary} {error.diag.message_hint or ''}".strip()
        )
    log.error("Unexpected failure", exc_info=error)
    return AuthError(500, "unexpected_failure", "The sign-in failed; the log of the stack says why.")


def _failure(error: AuthError) -> dict[str, str]:
    kind = error.more.get("error") or ("server_error" if error.status >= 500 else "access_denied")
    return {"error": str(kind), "error_code": error.code, "error_description": error.message}


def _redirect(target: str, query: dict[str, str], status: int = 303) -> Answer:
    address = f"{target}{'&' if '?' in target else '?'}{urlencode(query)}"
    return Answer(status=status, headers={"location": address, "referrer-policy": "no-referrer"})
