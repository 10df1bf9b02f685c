"""A Supabase project with the contract tests' own tables, and clients for it: embedded, or whichever the environment names."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from supabase import ClientOptions, create_client
from tests.support.stack import Project
from tests.support.waiting import wait_until

SQL = Path(__file__).parent / "sql"
PASSWORD = "correct horse battery"
# A supabase client. Its own types make every answer a union of all JSON, which no test can index.
Api = Any


@dataclass(frozen=True)
class User:
    """A person with an account and a client that is signed in."""

    id: str
    email: str
    client: Api

    @property
    def token(self) -> str:
        session = self.client.auth.get_session()
        assert session is not None
        return str(session.access_token)


@pytest.fixture(scope="session")
def project(supabase_project: Project) -> Iterator[Project]:
    """The project with the contract's tables in it."""
    if not supabase_project.db_url:
        pytest.skip("RUNYARD_TEST_DB_URL is needed to make the contract's tables")
    _execute(supabase_project, "rest.sql")
    headers = {"apikey": supabase_project.publishable_key}
    url = f"{supabase_project.url}/rest/v1/rpc/contract_add"
    wait_until(lambda: httpx.post(url, json={"p_a": 1}, headers=headers).status_code == 200)
    yield supabase_project
    _execute(supabase_project, "rest_drop.sql")


def _execute(project: Project, name: str) -> None:
    with psycopg.connect(project.db_url, autocommit=True) as connection:
        connection.execute((SQL / name).read_bytes())


@pytest.fixture(scope="session")
def db(project: Project) -> Iterator[psycopg.Connection]:
    """The database owner's connection, for what no client may do."""
    with psycopg.connect(project.db_url, autocommit=True) as connection:
        yield connection


def quiet(**more: object) -> ClientOptions:
    """No refreshing in the background: a test decides when."""
    return ClientOptions(auto_refresh_token=False, persist_session=False, **more)  # type: ignore[arg-type]


@pytest.fixture
def anon(project: Project) -> Api:
    """Somebody with the publishable key and no account."""
    return create_client(project.url, project.publishable_key, quiet())


@pytest.fixture
def admin(project: Project) -> Api:
    """The holder of the secret key."""
    return create_client(project.url, project.secret_key, quiet())


@pytest.fixture
def http(project: Project) -> Iterator[httpx.Client]:
    """Requests that no client library would send."""
    with httpx.Client(base_url=project.url, headers={"apikey": project.publishable_key}, timeout=30) as client:
        yield client


@pytest.fixture
def make_user(project: Project, admin: Api) -> Iterator[Callable[[], User]]:
    """Makes users who are removed after the test."""
    made: list[str] = []

    def make() -> User:
        email = f"contract-{uuid.uuid4().hex[:12]}@example.com"
        attributes = {"email": email, "password": PASSWORD, "email_confirm": True}
        user = admin.auth.admin.create_user(attributes).user
        made.append(user.id)
        client = create_client(project.url, project.publishable_key, quiet())
        client.auth.sign_in_with_password({"email": email, "password": PASSWORD})
        return User(user.id, email, client)

    yield make
    for user_id in made:
        admin.auth.admin.delete_user(user_id)


@pytest.fixture
def alice(make_user: Callable[[], User]) -> User:
    return make_user()


@pytest.fixture
def bob(make_user: Callable[[], User]) -> User:
    return make_user()


@pytest.fixture
def places(db: psycopg.Connection) -> Iterator[dict[str, uuid.UUID]]:
    """Three places, removed after the test."""
    db.execute(
        'insert into public.contract_places (name, meta, tags, score, span, is_open, "odd name") values'
        ' (\'Aarhus\', \'{"size": {"big": true, "area": 91}, "names": ["a", "b"]}\', \'{coast,jutland}\', 1.5, \'[1,5)\', true, \'x y\'),'
        " ('Bergen', '{\"size\": {\"area\": 465}}', '{coast}', 2, '[5,9)', false, null),"
        " ('Cusco, \"Peru\"', '{}', '{}', null, null, null, null)"
    )
    found = {str(name): key for name, key in db.execute("select name, id from public.contract_places")}
    yield found
    db.execute("truncate public.contract_places, public.contract_notes cascade")
