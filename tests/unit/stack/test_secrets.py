"""Secrets are made once, differ between folders, and are shown to nobody."""

import json
from pathlib import Path

import pytest

from stack.errors import StackError
from stack.secrets import load_identity_keys, load_secrets


def test_secrets_are_made_once_and_only_their_owner_may_read_them(tmp_path: Path) -> None:
    path = tmp_path / "home" / "secrets.json"
    first = load_secrets(path)
    assert load_secrets(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert first != load_secrets(tmp_path / "other.json")
    assert [file.name for file in path.parent.iterdir()] == ["secrets.json"]


def test_a_file_that_others_could_read_is_closed_again(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    load_secrets(path)
    path.chmod(0o644)
    load_secrets(path)
    assert path.stat().st_mode & 0o077 == 0


def test_keys_have_hosteds_form_and_the_public_key_has_no_private_part(tmp_path: Path) -> None:
    made = load_secrets(tmp_path / "secrets.json")
    assert made.publishable_key.startswith("sb_publishable_")
    assert made.secret_key.startswith("sb_secret_")
    assert "d" in made.signing_jwk
    assert "d" not in made.public_jwk()
    assert made.public_jwk()["kid"] == made.signing_jwk["kid"]


def test_printing_them_shows_nothing(tmp_path: Path) -> None:
    made = load_secrets(tmp_path / "secrets.json")
    assert made.secret_key not in f"{made} {made!r}"
    assert made.password("postgres") not in f"{made} {made!r}"


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text("{")
    with pytest.raises(StackError, match=r"secrets\.json"):
        load_secrets(path)


def test_identity_keys_are_made_once_in_a_file_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "home" / "identity-keys.json"
    made = load_identity_keys(path)
    assert load_identity_keys(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    [key] = json.loads(made)["keys"]
    assert (key["kty"], bool(key["d"]), bool(key["kid"])) == ("RSA", True, True)
