"""Programs that tests need and that no machine has: built from pinned sources, as engines are."""

from pathlib import Path

from cli.engines.catalog import Engine

_RELEASES = "https://releases.hashicorp.com/terraform-provider-external/{version}/terraform-provider-external_{version}"
PROVIDER = Engine(
    name="external",
    title="the external provider",
    version="1.2.0",
    package="github.com/terraform-providers/terraform-provider-external",
    archive=_RELEASES + "_{system}_{arch}.zip",
    sums=_RELEASES + "_SHA256SUMS",
    recipes=Path(__file__).parent,
)

# A program of ours around the last release under the MPL. It is never fetched, so it has no addresses.
VAULT = Engine(
    name="vault",
    title="Vault",
    version="1.14.1",
    package="runyard.dev/tests/vault",
    archive="",
    sums="",
    recipes=Path(__file__).parent,
)
