"""The parts that a run must be able to test: a missing one skips a test on a person's machine, and fails it where the part is required."""

import os
from typing import NoReturn

import pytest

VARIABLE = "RUNYARD_TEST_MUST"
# The parts that `make test` installs automatically; workflows with a daemon or a cluster name more.
IN_CI = "browser,engine"


def unavailable(kind: str, reason: str) -> NoReturn:
    """Skip the test, or fail it where this kind (browser, engine, docker, kubernetes, kube-apiserver, gitea, isolation) must be there."""
    must = os.environ.get(VARIABLE, IN_CI if os.environ.get("CI") else "")
    if kind in must.split(","):
        pytest.fail(f"{VARIABLE} has {kind}: {reason}")
    pytest.skip(reason)
