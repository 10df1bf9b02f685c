"""Three ways to prove who the runner is: its token, a service account's secret, or a helper's token."""

import asyncio
import shlex
from typing import Any

from worker.api.transport import Transport
from worker.errors import Fatal, Rejected, Retryable
from worker.exit_codes import ExitCode
from worker.settings import Settings

_HELPER_SECONDS = 60.0
_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105  (a grant type, not a secret)


class Credentials:
    """Gives what `worker-session` is shown; nothing is cached, so that rotation takes effect."""

    def __init__(self, settings: Settings, transport: Transport) -> None:
        """Keep the settings; the transport is for exchanging a service account's secret."""
        self._runner = settings.runner
        self._account = settings.runner.credentials
        self._transport = transport

    @property
    def secrets(self) -> list[str]:
        """What the redactor must never let through."""
        values = (self._runner.token, self._account.client_secret)
        return [value.get_secret_value() for value in values if value is not None]

    async def proof(self) -> dict[str, str]:
        """Return the field that proves the identity."""
        if self._runner.token is not None:
            return {"worker_token": self._runner.token.get_secret_value()}
        return {"access_token": await self._account_token()}

    async def _account_token(self) -> str:
        try:
            reply = await self._transport.function("service-account-token", await self._grant())
        except (Fatal, Rejected) as error:
            raise Fatal(error.message, exit_code=ExitCode.REFUSED, hint=error.hint, code=error.code) from error
        return str(reply["access_token"])

    async def _grant(self) -> dict[str, Any]:
        grant = self._account_name()
        if self._account.client_secret is not None:
            secret = self._account.client_secret.get_secret_value()
            return {"grant_type": "client_credentials", "client_secret": secret, **grant}
        return {"grant_type": _TOKEN_EXCHANGE, "subject_token": await self._helper_token(), **grant}

    def _account_name(self) -> dict[str, str]:
        """Name the account; a path is looked for in the organisation, which the runner's id tells where it is not set."""
        name = self._account.client_id or self._account.service_account_path or ""
        if self._runner.organization_id and ":" not in name:
            return {"client_id": f"{self._runner.organization_id}:{name}"}
        return (
            {"client_id": name} if self._account.client_id else {"client_id": name, "worker_id": str(self._runner.id)}
        )

    async def _helper_token(self) -> str:
        command = [str(self._account.helper_command_path), *shlex.split(self._account.helper_command_args)]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            output, errors = await asyncio.wait_for(process.communicate(), _HELPER_SECONDS)
        except (OSError, TimeoutError) as error:
            raise Retryable(f"The credential helper {command[0]} did not answer: {error}") from error
        if process.returncode != 0 or not output.strip():
            said = errors.decode(errors="replace").strip()[-300:]
            raise Retryable(f"The credential helper {command[0]} ended with {process.returncode}: {said}")
        return output.decode().strip()
