"""Providers that tests need and that no machine has: built from pinned sources, as engines are."""

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
