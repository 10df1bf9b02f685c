"""The blocks with which Terraform and OpenTofu work against a module here."""

from urllib.parse import urlsplit

_SERVICES = ("tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2")


def host_of(url: str) -> str:
    """The host as the programs name it."""
    place = urlsplit(url)
    return place.netloc if place.scheme == "https" else place.hostname or ""


def cloud_block(url: str, organization: str, path: str) -> str:
    """The block for the module's code; the workspace is the module's path with dots."""
    workspace = path.replace("/", ".")
    return (
        f'terraform {{\n  cloud {{\n    hostname     = "{host_of(url)}"\n    organization = "{organization}"\n'
        f'    workspaces {{\n      name = "{workspace}"\n    }}\n  }}\n}}\n'
    )


def host_block(url: str) -> str:
    """The block for ~/.terraformrc where a host cannot answer service discovery: hosted Supabase, and all without https."""
    place = urlsplit(url)
    if place.scheme == "https" and not (place.hostname or "").endswith(".supabase.co"):
        return ""
    base = f"{url.rstrip('/')}/functions/v1/terraform"
    named = "".join(f'    "{name}" = "{base}/api/v2/"\n' for name in _SERVICES)
    login = (
        '    "login.v1" = {\n      client = "terraform-cli"\n      grant_types = ["authz_code"]\n'
        f'      authz = "{base}/oauth/authorize"\n      token = "{base}/oauth/token"\n      ports = [10000, 10010]\n    }}\n'
    )
    return f'host "{host_of(url)}" {{\n  services = {{\n{named}{login}  }}\n}}\n'
