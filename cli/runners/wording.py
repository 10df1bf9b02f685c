"""The texts that the commands about runners print for people."""

from collections.abc import Sequence
from typing import Any


def sentence(row: dict[str, Any]) -> str:
    """Describe a runner's status."""
    state = "removed" if row["removed_at"] else f"{row['status']}: {row['status_reason']}"
    return f"{row['name']}  {row['id']}  {state}"


def credentials(row: dict[str, Any]) -> str:
    """Write what starts the runner, as shell exports."""
    lines = [f"# {row['name']}", f"export WORKER_ID={row['id']}"]
    return "\n".join(lines + ([f"export WORKER_TOKEN={row['token']}"] if "token" in row else []))


def account(row: dict[str, Any]) -> str:
    """Write what lets a runner sign in with the account, as shell exports."""
    lines = [f"# {row['name']}", f"export WORKER_CLIENT_ID={row['client_id']}"]
    return "\n".join(
        lines + ([f"export WORKER_CLIENT_SECRET={row['client_secret']}"] if "client_secret" in row else [])
    )


def outcomes(outcomes: Sequence[dict[str, Any]]) -> str:
    """Describe the result for each shared runner."""
    lines = []
    for outcome in outcomes:
        lines.append(f"{outcome['name']}  {outcome['id']}  {outcome['action']}")
        if outcome["token"]:
            lines.append(f"  WORKER_TOKEN={outcome['token']}   (shown this once)")
    return "\n".join(lines) or "The file names no shared runner, and there is none."
