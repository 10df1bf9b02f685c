"""The edge functions: one Deno process that serves every folder of `supabase/functions/`."""

import json
import os
import shutil
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from stack.errors import Missing, StackError
from stack.secrets import Secrets, load_identity_keys
from stack.settings import Settings

ROUTER = Path(__file__).resolve().parent / "edge" / "router.ts"
# Variables that Deno itself needs from the machine: its cache, the configured registry, proxies, certificates.
MACHINE_PREFIXES = ("DENO_", "NPM_CONFIG_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT", "NODE_EXTRA_CA")
# Names that npm packages ask for while they load; without leave to ask they fail.
PROBED_NAMES = (
    "NODE_ENV", "DEBUG", "NO_COLOR", "FORCE_COLOR", "WS_NO_BUFFER_UTIL", "WS_NO_UTF_8_VALIDATE",
    "NODE_USE_SYSTEM_CA", "NODE_EXTRA_CA_CERTS", "NODE_DEBUG", "NODE_TLS_REJECT_UNAUTHORIZED", "NODE_OPTIONS",
    "HTTPS_PROXY", "https_proxy",
)  # fmt: skip
# The gateway is on 127.0.0.1, so that one address stays open.
INSIDE_NETWORKS = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "168.63.129.16", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3", "[::1]",
)  # fmt: skip
PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY")
HOSTED_NAMES = (
    "SB_REGION",
    "SB_EXECUTION_ID",
    "RUNYARD_JWT_ISSUER",
    "SUPABASE_SECRET_KEYS",
    "SUPABASE_PUBLISHABLE_KEYS",
)


def function_entries(folder: Path) -> dict[str, dict[str, Any]]:
    """Every function with its `config.toml` settings; folders that start with `_` or `.` are shared code."""
    configured = _config(folder).get("functions", {})
    found = {}
    for entrypoint in sorted((folder / "functions").glob("*/index.ts")):
        name = entrypoint.parent.name
        settings = configured.get(name, {})
        if not name.startswith(("_", ".")) and settings.get("enabled", True):
            found[name] = {"entrypoint": entrypoint.as_uri(), "verify_jwt": settings.get("verify_jwt", True)}
    return found


def functions_command(settings: Settings, environment: dict[str, str]) -> list[str]:
    """Deno with no more rights than the functions need."""
    folder = settings.supabase_folder / "functions"
    config = folder / "deno.json"
    granted = (name for name in environment if name.isidentifier() and not name.startswith(MACHINE_PREFIXES))
    names = sorted({*granted, *PROBED_NAMES, *HOSTED_NAMES})
    return [
        str(find_deno()), "run", "--no-prompt", "--quiet", "--node-modules-dir=none",
        f"--config={config}" if config.exists() else "--no-config",
        "--allow-net",
        *_fence(settings, environment),
        "--allow-sys=ca",
        f"--allow-env={','.join(names)}",
        f"--allow-read={folder}",
        str(ROUTER),
    ]  # fmt: skip


def functions_environment(settings: Settings, secrets: Secrets) -> dict[str, str]:
    """Return hosted's variables for a function, the key that signs worker tokens, and the project's own function secrets.

    All but the database's address: no function needs it, and here it is nearly a superuser's.
    """
    setup = {
        "port": settings.functions_port,
        "functions": function_entries(settings.supabase_folder),
        "jwks": [secrets.public_jwk()],
        "issuer": settings.auth_issuer,
    }
    return {
        **_machine_environment(settings),
        **_own_secrets(settings.supabase_folder / "functions" / ".env"),
        "SUPABASE_URL": f"http://127.0.0.1:{settings.gateway_port}",
        "SUPABASE_ANON_KEY": secrets.publishable_key,
        "SUPABASE_PUBLISHABLE_KEY": secrets.publishable_key,
        "SUPABASE_SERVICE_ROLE_KEY": secrets.secret_key,
        "SUPABASE_SECRET_KEY": secrets.secret_key,
        "WORKER_SIGNING_JWK": json.dumps(secrets.signing_jwk),
        "RUNYARD_IDENTITY_KEYS": load_identity_keys(settings.identity_keys_file),
        "RUNYARD_IDENTITY_ISSUER": settings.identity_issuer,
        "RUNYARD_PUBLIC_URL": settings.url,
        "RUNYARD_DASHBOARD_URL": settings.dashboard_url,
        # An issuer that the operator named may be inside their own network.
        "RUNYARD_ISSUER_HOSTS": ",".join(settings.functions_allow_net),
        "RUNYARD_DNS_URL": settings.dns_url,
        "RUNYARD_ALLOW_PRIVATE_RECEIVERS": str(settings.allow_private_receivers).lower(),
        "RUNYARD_FUNCTIONS": json.dumps(setup),
    }


def functions_fingerprint(folder: Path) -> tuple[tuple[str, float, int], ...]:
    """Changes when a function or its settings change, so that the process can be restarted."""
    files = [folder / "config.toml", *sorted((folder / "functions").rglob("*"))]
    found = []
    for file in files:
        with suppress(FileNotFoundError):
            status = file.stat()
            found.append((str(file), status.st_mtime, status.st_size))
    return tuple(found)


def find_deno() -> Path:
    """Deno from this environment's packages, or from PATH."""
    beside = Path(sys.prefix) / "bin" / "deno"
    found = beside if beside.exists() else shutil.which("deno")
    if found is None:
        raise Missing("Deno is not installed.", "Run `make setup`; it comes with the Python packages.")
    return Path(found)


def _fence(settings: Settings, environment: dict[str, str]) -> list[str]:
    """Deny every network inside; Deno compares the address that it connects to, whatever the name.

    A denied network cannot be allowed in part. Where the operator named hosts inside, allowed receivers inside or has a proxy, the
    functions' own check of each address remains.
    """
    has_proxy = any(name.upper() in PROXY_NAMES for name in environment)
    if settings.functions_allow_net or settings.allow_private_receivers or has_proxy:
        return []
    return [f"--deny-net={','.join(INSIDE_NETWORKS)}"]


def _machine_environment(settings: Settings) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.upper().startswith(MACHINE_PREFIXES)}
    return {
        "DENO_DIR": str(settings.cache_folder / "deno"),
        "DENO_NO_UPDATE_CHECK": "1",
        # A machine behind an inspecting proxy has its certificate in the system's store only.
        "DENO_TLS_CA_STORE": "system,mozilla",
        "NODE_USE_SYSTEM_CA": "1",
        "NO_COLOR": "1",
        "HOME": os.environ.get("HOME", "/"),
        "PATH": os.environ.get("PATH", os.defpath),
        **kept,
    }


def _own_secrets(file: Path) -> dict[str, str]:
    """`supabase/functions/.env`, the file that `supabase functions serve` reads too."""
    if not file.exists():
        return {}
    lines = (line.strip() for line in file.read_text().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "config.toml"
    if not file.exists():
        return {}
    try:
        return tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise StackError(f"{file} is not valid TOML: {error}", "Correct it and start again.") from error
