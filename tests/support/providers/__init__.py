"""Programs that tests need and that no machine has: built from pinned sources, as engines are."""

from pathlib import Path

from cli.engines.build import built
from cli.engines.cache import cached, install, locked
from cli.engines.catalog import Engine
from cli.engines.progress import Reporter

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

# A program of ours around HashiCorp's client of the API that `cloud {}` speaks.
GOTFE = Engine(
    name="gotfe",
    title="the program with go-tfe",
    # Of go-tfe, and of our program: the cache knows a build by both.
    version="1.110.0-2",
    package="runyard.dev/tests/gotfe",
    archive="",
    sums="",
    recipes=Path(__file__).parent,
)

# HashiCorp's provider of that API. Its releases are on addresses that not every machine reaches; the Go proxy has this one.
TFE = Engine(
    name="tfe",
    title="the tfe provider",
    version="0.79.0",
    package="github.com/hashicorp/terraform-provider-tfe",
    archive="",
    sums="",
    recipes=Path(__file__).parent,
)


def build(wanted: Engine) -> Path:
    """Return the program, built now if it is missing."""
    with locked(wanted):
        if (found := cached(wanted)) is not None:
            return found
        with built(wanted, Reporter(wanted, None)) as made:
            return install(wanted, made)
