"""The generated reference pages agree with the database."""

import psycopg
import pytest

from scripts.database_pages import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_in_step_with_the_database(name: str, db_url: str) -> None:
    with psycopg.connect(db_url) as connection:
        made = PAGES[name](connection)
    advice = "run `python -m scripts.database_pages $SUPABASE_DB_URL` against a database with every migration"
    assert (FOLDER / name).read_text() == made, advice
