"""The files of the machine that a job sees."""

from pathlib import Path

import pytest

from tests.support.job_place import Place, place
from worker.children.mounts import View

__all__ = ["place"]


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "GIT_SSL_CAINFO", "KUBECONFIG"])
def test_a_file_that_a_variable_of_the_runner_names_is_shown(place: Place, tmp_path: Path, name: str) -> None:
    named = tmp_path / "authority.pem"
    named.write_text("x")
    environ = {**place.environ("[]"), name: str(named)}
    assert ("ro", str(named), str(named)) in View(place.settings("[]"), environ).mounts(
        place.root, environ, for_git=True
    )
