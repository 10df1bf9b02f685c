"""The engines, with the addresses of their releases and the way each is built."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cli.errors import CommandError

RECIPES = Path(__file__).resolve().parent / "modules"
PULUMI_VERSION_FLAG = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"


class EngineError(CommandError):
    """An engine could not be provided; the message lists what was tried."""


@dataclass(frozen=True)
class Engine:
    """One binary at one version; `probe` is the argument with which it shows that it runs."""

    name: str
    title: str
    version: str
    package: str
    archive: str
    sums: str
    ldflags: str = "-s -w"
    arches: Mapping[str, str] | None = None
    recipes: Path = RECIPES
    probe: str = "version"

    @property
    def recipe(self) -> Path:
        """The folder with the pinned go.mod and go.sum."""
        return self.recipes / self.name

    @property
    def key(self) -> str:
        """Name of the engine's folder in the cache: version and platform are part of it."""
        return f"{self.name}-{self.version}-{system()}-{machine()}"

    def archive_url(self) -> str:
        """Address of the official release for this platform."""
        arch = (self.arches or {}).get(machine(), machine())
        return self.archive.format(version=self.version, system=system(), arch=arch)

    def sums_url(self) -> str:
        """Address of the release's checksums."""
        return self.sums.format(version=self.version, system=system(), arch=machine())


def system() -> str:
    """Return the operating system as Go names it."""
    return platform.system().lower()


def machine() -> str:
    """Return the processor as Go names it."""
    name = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(name, name)


TOFU = "https://github.com/opentofu/opentofu/releases/download/v{version}"
TERRAFORM = "https://releases.hashicorp.com/terraform/{version}"
PULUMI = "https://github.com/pulumi/pulumi/releases/download/v{version}"
TERRAGRUNT = "https://github.com/gruntwork-io/terragrunt/releases/download/v{version}"
OPA = "https://github.com/open-policy-agent/opa/releases/download/v{version}/opa_{system}_{arch}_static"
YAML = "https://github.com/pulumi/pulumi-yaml/releases/download/v{version}"

ENGINES: Mapping[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            name="tofu",
            title="OpenTofu",
            version="1.12.6",
            package="github.com/opentofu/opentofu/cmd/tofu",
            archive=TOFU + "/tofu_{version}_{system}_{arch}.tar.gz",
            sums=TOFU + "/tofu_{version}_SHA256SUMS",
            ldflags="-s -w -X github.com/opentofu/opentofu/version.dev=no",
        ),
        Engine(
            name="terraform",
            title="Terraform",
            version="1.5.7",
            package="github.com/hashicorp/terraform",
            archive=TERRAFORM + "/terraform_{version}_{system}_{arch}.zip",
            sums=TERRAFORM + "/terraform_{version}_SHA256SUMS",
            ldflags="-s -w -X github.com/hashicorp/terraform/version.Prerelease=",
        ),
        Engine(
            name="terragrunt",
            title="Terragrunt",
            version="1.0.0",
            package="github.com/gruntwork-io/terragrunt",
            archive=TERRAGRUNT + "/terragrunt_{system}_{arch}.tar.gz",
            sums=TERRAGRUNT + "/SHA256SUMS",
            ldflags="-s -w -X github.com/gruntwork-io/go-commons/version.Version=v1.0.0",
            probe="--version",
        ),
        Engine(
            name="pulumi",
            title="Pulumi",
            version="3.200.0",
            package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
            archive=PULUMI + "/pulumi-v{version}-{system}-{arch}.tar.gz",
            sums=PULUMI + "/pulumi-{version}-checksums.txt",
            ldflags=f"-s -w -X {PULUMI_VERSION_FLAG}=v3.200.0",
            arches={"amd64": "x64"},
        ),
        Engine(
            name="pulumi-language-yaml",
            title="Pulumi YAML",
            version="1.10.0",
            package="github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml",
            archive=YAML + "/pulumi-language-yaml-v{version}-{system}-{arch}.tar.gz",
            sums=YAML + "/pulumi-yaml-{version}-checksums.txt",
            ldflags="-s -w -X github.com/pulumi/pulumi-yaml/pkg/version.Version=v1.10.0",
            probe="-h",
        ),
        Engine(
            name="opa",
            title="OPA",
            version="1.22.0",
            package="github.com/open-policy-agent/opa",
            archive=OPA,
            sums=OPA + ".sha256",
        ),
    )
}
