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

# The last line under the MPL. Its own go.mod replaces the SDK by a folder that the module does not contain; ours names a version.
VAULT = Engine(
    name="vault",
    title="Vault",
    version="1.14.10",
    package="github.com/hashicorp/vault",
    archive="https://releases.hashicorp.com/vault/{version}/vault_{version}_{system}_{arch}.zip",
    sums="https://releases.hashicorp.com/vault/{version}/vault_{version}_SHA256SUMS",
    recipes=Path(__file__).parent,
)
