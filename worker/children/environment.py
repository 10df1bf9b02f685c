"""The part of the runner's environment that a child sees, and the variables that a job may not set."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wire.forbidden_variables import PATTERN
from worker.errors import JobFailed
from worker.settings.base import is_passed

ALLOWED_NAMES = frozenset((
    "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "KUBECONFIG", "SSH_AUTH_SOCK",
    "TF_PLUGIN_CACHE_DIR", "PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE",
))  # fmt: skip
# Credentials that operators bind to the host for the providers: they are meant for the engine.
ALLOWED_PREFIXES = (
    "LC_", "AWS_", "AZURE_", "ARM_", "GOOGLE_", "GCLOUD_", "CLOUDSDK_", "KUBE_", "VAULT_", "CONSUL_", "NOMAD_",
    "CLOUDFLARE_", "DIGITALOCEAN_", "HCLOUD_", "GITHUB_", "GITLAB_", "DATADOG_", "DD_", "OCI_", "ALICLOUD_", "OS_",
    "TF_VAR_", "TF_TOKEN_",
)  # fmt: skip

_FORBIDDEN = re.compile(PATTERN, re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SENSITIVE = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|PRIVATE|CREDENTIAL|API_?KEY|ACCESS_?KEY|(^|_)KEY$|(^|_)PAT$", re.IGNORECASE
)


def host_variables(environ: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """Pick from the runner's environment what the engines need, and what `Engine.PassEnvironment` names; the rest stays unseen."""
    wanted = tuple(passed)
    return {
        name: value
        for name, value in environ.items()
        if name in ALLOWED_NAMES or name.startswith(ALLOWED_PREFIXES) or is_passed(name, wanted)
    }


def job_variables(requested: Mapping[str, object]) -> dict[str, str]:
    """Check the variables that a job brings along, naming all that are refused at once."""
    refused = sorted(name for name in requested if not _NAME.match(name) or _FORBIDDEN.search(name))
    if refused:
        raise JobFailed(
            f"The job sets variables that a job may not set: {', '.join(repr(name) for name in refused)}.",
            code="forbidden_variable",
            hint="Remove them from the module's or the group's environment.",
        )
    values = {name: _text(value) for name, value in requested.items()}
    broken = sorted(name for name, value in values.items() if "\0" in value)
    if broken:
        raise JobFailed(f"Variables with a NUL inside cannot be set: {', '.join(broken)}.", code="bad_variable")
    return values


def sensitive_values(variables: Mapping[str, Any]) -> list[str]:
    """List the texts in values whose names suggest secrets."""
    return [text for name, value in variables.items() if _SENSITIVE.search(name) for text in _texts(value) if text]


def search_path(additional: Iterable[object], environ: Mapping[str, str]) -> str:
    """Build the child's PATH: the operator's additional directories first."""
    own = environ.get("PATH") or "/usr/local/bin:/usr/bin:/bin"
    return ":".join([*map(str, additional), own])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        # An HCL expression is a text in quotes.
        yield from {value, value.strip('"')}
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
