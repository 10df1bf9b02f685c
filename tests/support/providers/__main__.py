"""Build what is missing: `python -m tests.support.providers`. (Started by hand a provider only says that it is one.)"""

from cli.engines.build import built
from cli.engines.cache import cached, install, locked
from cli.engines.progress import Reporter
from tests.support.providers import PROVIDER

if __name__ == "__main__":
    with locked(PROVIDER):
        if cached(PROVIDER) is None:
            with built(PROVIDER, Reporter(PROVIDER, None)) as made:
                install(PROVIDER, made)
