"""What several files of real places share: one registry for all of them, since filling it takes a minute."""

from tests.support.private_registry import private_registry
from tests.support.real_docker import real_docker

__all__ = ["private_registry", "real_docker"]
