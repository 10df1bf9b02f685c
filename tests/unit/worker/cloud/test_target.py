"""The target in a lifecycle job's payload."""

from typing import Any

import pytest

from worker.cloud.target_store import Target

LIFECYCLE: dict[str, Any] = {
    "worker": {"id": "6f1c2a52-6a3e-4f0e-9d0a-0c8b8d4c8f10", "name": "prod-eu"},
    "identity": {"account_id": "123456789012"},
    "region": "eu-west-1",
    "version": "1.9.0",
}


@pytest.mark.parametrize(
    ("own", "repository", "image"),
    [
        ("", "registry.test:5000/team/runyard-worker", "registry.test:5000/team/runyard-worker:1.9.0"),
        ("mirror.test/worker", "registry.test/runyard-worker", "mirror.test/worker:1.9.0"),
        ("mirror.test/worker:pinned", "registry.test/runyard-worker", "mirror.test/worker:pinned"),
        ("mirror.test/worker@sha256:abc", "", "mirror.test/worker@sha256:abc"),
        ("", "", ""),
    ],
)
def test_the_image_is_the_runners_own_or_the_repositorys_with_the_version(
    own: str, repository: str, image: str
) -> None:
    payload = {"lifecycle": LIFECYCLE | {"image": own}}
    assert Target.from_payload(payload, "http://127.0.0.1:54321", repository).image == image
