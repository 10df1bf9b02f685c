"""The proofs of a runner's identity: its token, a service account's secret, or an identity provider's token."""

import shlex
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from worker.api.replies import Document
from worker.api.transport import Transport
from worker.errors import ExitCode, Fatal, Rejected, Retryable, TokenExpired
from worker.logs.redactor import KnownSecrets
from worker.settings.model import Settings
from worker.vaults import FILE, read_secret, run_command

_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105  (a grant type, not a secret)


class Credentials:
    """Provides the proof for `worker-session`; reads everything again at each sign-in, so that rotation takes effect."""

    def __init__(self, settings: Settings, transport: Transport, known: KnownSecrets) -> None:
        """The transport is for exchanging a service account's secret; every secret is made known before it is sent."""
        self._runner = settings.runner
        self._account = settings.runner.credentials
        self._transport = transport
        self._known = known
        values = (self._runner.token, self._account.client_secret)
        known.add(*(value.get_secret_value() for value in values if value is not None))

    async def proof(self) -> dict[str, str]:
        """Return the field that proves the identity."""
        if self._runner.token is not None or self._runner.token_from:
            return {"worker_token": await self._current(self._runner.token_from, self._runner.token)}
        return {"access_token": await self._account_token()}

    async def _account_token(self) -> str:
        try:
            reply = await ask(self._transport, "service-account-token", await self._grant())
        except (Fatal, Rejected) as error:
            raise Fatal(error.message, exit_code=ExitCode.REFUSED, hint=error.hint, code=error.code) from error
        token = str(reply["access_token"])
        self._known.add(token)
        return token

    async def _grant(self) -> dict[str, Any]:
        grant, account = self._account_name(), self._account
        if account.client_secret is not None or account.client_secret_from:
            secret = await self._current(account.client_secret_from, account.client_secret)
            return {"grant_type": "client_credentials", "client_secret": secret, **grant}
        return {"grant_type": _TOKEN_EXCHANGE, "subject_token": await self._identity_token(), **grant}

    def _account_name(self) -> dict[str, str]:
        """Name the account; a path is looked up in the organisation, which the runner's id determines where it is not set."""
        name = self._account.client_id or self._account.service_account_path or ""
        if self._runner.organization_id and ":" not in name:
            return {"client_id": f"{self._runner.organization_id}:{name}"}
        return (
            {"client_id": name} if self._account.client_id else {"client_id": name, "worker_id": str(self._runner.id)}
        )

    async def _identity_token(self) -> str:
        if self._account.identity_token_file is not None:
            return await read_secret(f"{FILE}{self._account.identity_token_file}", register=self._known.add)
        token = await run_command(
            [str(self._account.helper_command_path), *shlex.split(self._account.helper_command_args)]
        )
        self._known.add(token)
        return token

    async def _current(self, source: str | None, told: SecretStr | None) -> str:
        """The secret as it is now where its place is known, else the one in the settings."""
        if source:
            return await read_secret(source, register=self._known.add)
        return told.get_secret_value() if told is not None else ""


async def ask(transport: Transport, name: str, body: Mapping[str, Any], *, is_authorised: bool = False) -> Document:
    """Call an edge function; repeat a call that something on the way refuses, such as a proxy without a route yet."""
    try:
        return await transport.function(name, body, is_authorised=is_authorised)
    except (Rejected, TokenExpired) as error:
        if error.is_ours:
            raise
        hint = f"The project itself did not answer. Is {transport.url} its address (SUPABASE_URL), and is it running?"
        raise Retryable(error.message, code=error.code, hint=error.hint or hint) from error
