"""The environment that the supervisor passes to each part."""

from pathlib import Path

import pytest

from cli.launcher.parts import dashboard_part
from stack.secrets import load_secrets
from stack.settings import Settings


def test_the_dashboard_gets_no_secret_but_the_one_that_vouches_for_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPABASE_SECRET_KEY", "sb_secret_of_the_terminal")
    settings = Settings(home=tmp_path)
    secrets = load_secrets(settings.secrets_file)
    environment = dashboard_part(settings, secrets).environment()
    assert (environment["SUPABASE_PUBLISHABLE_KEY"], environment["RUNYARD_FORWARDING_KEY"]) == (
        secrets.publishable_key, secrets.forwarding_key,
    )  # fmt: skip
    kept = [secrets.secret_key, secrets.jwt_secret, secrets.signing_jwk["d"], *secrets.database_passwords.values()]
    given = "\n".join(environment.values())
    assert [secret for secret in [*kept, "sb_secret_of_the_terminal"] if secret in given] == []
