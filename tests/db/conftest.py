"""A world for each test. Tests of one file share a database and have organisations of their own, as on one installation."""

from collections.abc import Iterator

import pytest

from tests.db.world import Organization, World
from tests.support.database import Database, IdleConnections, Server


@pytest.fixture(scope="module")
def module_database(postgres_server: Server) -> Iterator[str]:
    """The name of the database that the tests of a file share."""
    name = postgres_server.create_database(postgres_server.template())
    yield name
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def idle_connections(module_database: str) -> Iterator[IdleConnections]:
    """Connections to that database that no test uses right now."""
    idle = IdleConnections()
    yield idle
    idle.close()


@pytest.fixture
def world(postgres_server: Server, module_database: str, idle_connections: IdleConnections) -> Iterator[World]:
    """The file's database, with connections of the test's own for as long as it takes."""
    database = Database(postgres_server, module_database, idle_connections)
    yield World.open(database)
    database.close()


@pytest.fixture
def fresh_world(database: Database) -> World:
    """A database of the test's own, for what concerns every organisation: shared runners, releases, the sweep's counts."""
    return World.open(database)


@pytest.fixture
def org(world: World) -> Organization:
    """An organisation with an owner and nothing else."""
    return world.organization()


@pytest.fixture
def other_org(world: World) -> Organization:
    """A stranger's organisation."""
    return world.organization()
