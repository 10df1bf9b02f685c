"""Fixtures of several files: one runner for jobs that any runner can do, and one registry, since filling it takes a minute."""

from tests.integration.worker_bench import served, steady_bench
from tests.support.private_registry import private_registry
from tests.support.real_docker import real_docker

__all__ = ["private_registry", "real_docker", "served", "steady_bench"]
