"""The file, the release and the origin of an update: the job's values are checked before they are used."""

from typing import Any

import pytest
from pydantic import ValidationError

from worker.errors import JobFailed
from worker.settings.model import UpdateSettings
from worker.update.recipe import Wanted, check_address, read_wanted

NAME = "runyard-worker-linux-x86_64.pex"
FILES = [
    {"name": "runyard-worker-linux-aarch64.pex", "url": "https://example.org/arm", "sha256": "a" * 64},
    {"name": NAME, "url": "https://example.org/x86", "sha256": "b" * 64},
]


def payload(version: str, **more: Any) -> dict[str, Any]:
    return {"lifecycle": {"version": version, "artifacts": FILES, **more}}


def test_the_platforms_own_file_is_chosen() -> None:
    assert read_wanted(payload("1.10.0"), NAME, "1.9.0") == Wanted("1.10.0", "https://example.org/x86", "b" * 64)


def test_a_release_without_a_file_for_the_platform_is_refused() -> None:
    with pytest.raises(JobFailed, match="has no file runyard-worker-plan9") as failure:
        read_wanted(payload("1.10.0"), "runyard-worker-plan9-vax", "1.9.0")
    assert failure.value.code == "update_no_artifact"


@pytest.mark.parametrize(
    ("version", "current"), [("1.9.0", "1.10.0"), ("2.0.0rc1", "2.0.0"), ("2.0.0-beta.1", "2.0.0")]
)
def test_an_older_version_needs_an_explicit_permission(version: str, current: str) -> None:
    with pytest.raises(JobFailed) as failure:
        read_wanted(payload(version), NAME, current)
    assert failure.value.code == "update_downgrade"
    assert read_wanted(payload(version, allow_downgrade=True), NAME, current).version == version


@pytest.mark.parametrize("version", ["", "latest", "../../etc"])
def test_an_invalid_version_is_refused(version: str) -> None:
    with pytest.raises(JobFailed) as failure:
        read_wanted(payload(version), NAME, "1.0.0")
    assert failure.value.code == "bad_payload"


@pytest.mark.parametrize(
    ("url", "origins", "is_right"),
    [
        ("https://example.org/x", [], True),
        ("http://example.org/x", [], False),
        ("ftp://example.org/x", [], False),
        ("http://project.example/x", [], True),
        ("http://project.example:8080/x", [], False),
        ("http://project.example.evil.org/x", [], False),
        ("https://example.org/x", ["https://example.org"], True),
        ("https://example.org:443/x", ["https://example.org"], True),
        ("https://example.org:8443/x", ["https://example.org"], False),
        ("https://elsewhere.org/x", ["https://example.org"], False),
        ("http://project.example/x", ["https://example.org"], True),
    ],
)
def test_only_trusted_addresses_are_fetched_from(url: str, origins: list[str], is_right: bool) -> None:
    settings = UpdateSettings(origins=origins)
    if is_right:
        check_address(url, settings, "http://project.example")
        return
    with pytest.raises(JobFailed) as failure:
        check_address(url, settings, "http://project.example")
    assert failure.value.code == "update_address"


@pytest.mark.parametrize("origin", ["http://example.org", "example.org", "https://example.org/path"])
def test_an_origin_is_https_and_has_no_path(origin: str) -> None:
    with pytest.raises(ValidationError):
        UpdateSettings(origins=[origin])
