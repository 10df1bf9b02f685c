"""Build a missing program: `python -m tests.support.providers`, with `vault` for Vault, which takes some minutes."""

import sys

from tests.support.providers import GOTFE, PROVIDER, TFE, VAULT, build

if __name__ == "__main__":
    named = {engine.name: engine for engine in (PROVIDER, VAULT, GOTFE, TFE)}
    build(named[sys.argv[1] if len(sys.argv) > 1 else PROVIDER.name])
