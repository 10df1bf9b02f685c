"""Build the missing providers: `python -m tests.support.providers`, with `vault` for Vault, which takes some minutes."""

import sys

from cli.engines.build import built
from cli.engines.cache import cached, install, locked
from cli.engines.progress import Reporter
from tests.support.providers import PROVIDER, VAULT

if __name__ == "__main__":
    wanted = VAULT if sys.argv[1:] == ["vault"] else PROVIDER
    with locked(wanted):
        if cached(wanted) is None:
            with built(wanted, Reporter(wanted, None)) as made:
                install(wanted, made)
