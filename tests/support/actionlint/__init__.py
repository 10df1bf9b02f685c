"""The linter of workflows, pinned: found, fetched or built from pinned sources, as engines are."""

from pathlib import Path

from cli.engines.catalog import Engine

_RELEASES = "https://github.com/rhysd/actionlint/releases/download/v{version}/actionlint_{version}"
ACTIONLINT = Engine(
    name="actionlint",
    title="actionlint",
    version="1.7.12",
    package="github.com/rhysd/actionlint/cmd/actionlint",
    archive=_RELEASES + "_{system}_{arch}.tar.gz",
    sums=_RELEASES + "_checksums.txt",
    recipes=Path(__file__).parent,
    probe="-version",
)
