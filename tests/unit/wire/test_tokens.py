"""Tokens: their shape, and what of them is for the database."""

import re
from hashlib import sha256

import bcrypt
import pytest

from wire.tokens import PERSONAL, RUNNER, SERVICE_ACCOUNT, make_personal_token, make_token


@pytest.mark.parametrize("prefix", [RUNNER, SERVICE_ACCOUNT])
def test_only_a_salted_hash_and_the_last_characters_of_a_token_are_for_the_database(prefix: str) -> None:
    token = make_token(prefix)
    assert re.fullmatch(rf"{prefix}[0-9A-Za-z]{{43}}", token.text)
    assert token.hash.startswith("$2b$10$")
    assert bcrypt.checkpw(token.text.encode(), token.hash.encode())
    assert token.hint == token.text[-4:]
    assert token.text not in repr(token)


def test_a_personal_token_is_found_by_its_digest() -> None:
    token = make_personal_token()
    assert re.fullmatch(rf"{PERSONAL}[0-9A-Za-z]{{43}}", token.text)
    assert (token.hash, token.hint) == (sha256(token.text.encode()).hexdigest(), token.text[-4:])


def test_no_two_tokens_are_alike() -> None:
    assert len({make_personal_token().text for _ in range(100)}) == 100
