"""Root modules of a repository, the paths that they get, and the modules that cannot be imported."""

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from cli.errors import CommandError, Usage
from cli.modules.bringing import has_code, numbers_of
from cli.modules.repository import NEEDS_GIT, NO_TEXT, TOO_LARGE, name_of, open_repository, without_password
from wire.discovery import find_roots, propose_paths

S3 = 'terraform {\n  required_version = ">= 1.5"\n  backend "s3" {}\n}\n'


LOCAL = 'terraform {\n  backend "local" {}\n}\n'


def write(top: Path, **files: str) -> Path:
    for name, text in files.items():
        file = top / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return top


def call(source: str) -> str:
    return f'module "m" {{\n  source = "{source}"\n}}\n'


def repository(top: Path) -> Path:
    return write(top, **{
        "network__core__main.tf": S3 + call("../../modules/vpc"),
        "network__core__.terraform.lock.hcl": 'provider "registry.terraform.io/hashicorp/aws" {}',
        "network__edge__main.tofu": 'provider "x" {}',
        "shop__Pulumi.yaml": "name: shop\nruntime: yaml\n",
        "modules__vpc__main.tf": 'provider "aws" {}\n' + call("./subnet"),
        "modules__vpc__subnet__main.tf": "",
        "live__prod__terragrunt.hcl": 'terraform {\n  source = "../../units//db"\n}\n',
        "units__db__main.tf": "",
        "network__core__.terraform__modules__x__main.tf": S3,
        "readme__notes.md": "",
    })  # fmt: skip


def test_roots_are_folders_with_a_backend_or_that_no_other_folder_calls(tmp_path: Path) -> None:
    found = {root.folder: root for root in find_roots(repository(tmp_path))}
    assert list(found) == ["live/prod", "network/core", "network/edge", "shop"]
    core = found["network/core"]
    assert (core.backend, core.engine, core.required_version, core.leads_outside) == ("s3", "terraform", ">= 1.5", True)
    assert (found["network/edge"].backend, found["network/edge"].engine) == ("", "tofu")
    assert (found["shop"].engine, found["shop"].problem) == ("pulumi", "")
    unit = found["live/prod"]
    assert (unit.engine, unit.problem, unit.sources, unit.leads_outside) == (
        "terragrunt",
        "",
        ("./../../units/db",),
        True,
    )


def test_units_are_found_with_what_they_depend_on(tmp_path: Path) -> None:
    take = 'dependency "db" {\n  config_path = "../db"\n}\ninputs = { id = dependency.db.outputs.id }\n'
    outside = 'dependencies {\n  paths = ["../../../elsewhere"]\n}\n'
    write(tmp_path, **{
        "root.hcl": 'remote_state {\n  backend = "s3"\n}\n',
        "live__db__terragrunt.hcl": 'include "root" {\n  path = find_in_parent_folders("root.hcl")\n}\n',
        "live__db__main.tf": "",
        "live__app__terragrunt.hcl": 'terraform {\n  source = "git::https://example.com/app.git"\n}\n' + take,
        "live__none__terragrunt.hcl": "",
        "live__out__terragrunt.hcl": outside,
        "live__out__main.tf": "",
        "live__lost__terragrunt.hcl": 'dependencies {\n  paths = ["../db", "../gone"]\n}\n',
        "live__lost__main.tf": "",
        "live__self__terragrunt.hcl": 'dependencies {\n  paths = ["../self"]\n}\n',
        "live__self__main.tf": "",
    })  # fmt: skip
    found = {root.folder: root for root in find_roots(tmp_path)}
    assert list(found) == ["live/app", "live/db", "live/lost", "live/none", "live/out", "live/self"]
    assert found["live/app"].reads == ({"folder": "live/db", "bindings": {"db:id": "id"}},)
    assert (found["live/db"].backend, found["live/db"].engine, found["live/db"].problem) == ("s3", "terragrunt", "")
    assert "there is no code beside it" in found["live/none"].problem
    assert found["live/out"].problem == "It depends on a folder that is not in the repository: ../elsewhere."
    assert found["live/lost"].problem == "It depends on a folder that is not in the repository: live/gone."
    assert found["live/self"].problem == "It depends on itself."


def test_workspaces_and_the_backend_of_pulumi_are_named(tmp_path: Path) -> None:
    write(tmp_path, **{
        "a__main.tf": 'terraform {\n  cloud {\n    workspaces {\n      name = "shop"\n    }\n  }\n}\n',
        "b__main.tf": 'terraform {\n  backend "remote" {\n    workspaces {\n      prefix = "app-"\n    }\n  }\n}\n',
        "c__main.tf": LOCAL,
        "c__terraform.tfstate.d__prod__terraform.tfstate": "{}",
        "d__Pulumi.yaml": "name: d\nbackend:\n  url: s3://states/d\nruntime: yaml\n",
        "d__Pulumi.prod.yaml": "",
        "d__Pulumi.dev.yml": "",
    })  # fmt: skip
    assert [(each.folder, each.backend, each.workspaces) for each in find_roots(tmp_path)] == [
        ("a", "cloud", ("shop",)), ("b", "remote", ("app-*",)), ("c", "local", ("prod",)),
        ("d", "s3://states/d", ("dev", "prod")),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["zip", "gztar"])
def test_an_archive_is_read_without_the_folder_around_it(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "in" / "infra-main", **{"a__main.tf": LOCAL, "b__main.tf": call("../a")})
    archive = shutil.make_archive(str(tmp_path / "Infra"), kind, tmp_path / "in")
    with open_repository(archive, None) as found:
        assert (found.name, found.url) == ("infra", "")
        roots = find_roots(found.top)
        assert [(each.folder, found.problem(each)) for each in roots] == [("a", ""), ("b", NEEDS_GIT)]
        assert found.spec(roots[0])["source"] == {"files": {"main.tf": LOCAL}}


def test_an_invalid_archive_or_one_that_leads_outside_is_refused(tmp_path: Path) -> None:
    broken, outside = tmp_path / "broken.tar.gz", tmp_path / "outside.tar"
    broken.write_text("no archive")
    with tarfile.open(outside, "w") as tar:
        tar.addfile(tarfile.TarInfo("../main.tf"))
    for archive in (broken, outside):
        with pytest.raises(CommandError, match="cannot be unpacked"), open_repository(str(archive), None):
            pass
    assert not (tmp_path.parent / "main.tf").exists()


def test_the_engine_is_the_one_that_people_wrote_down(tmp_path: Path) -> None:
    write(
        tmp_path, **{".terraform-version": "1.5.7", "a__main.tf": "", "b__main.tf": "", "b__.opentofu-version": "1.9"}
    )
    assert [root.engine for root in find_roots(tmp_path)] == ["terraform", "tofu"]
    assert {root.engine for root in find_roots(tmp_path, "tofu")} == {"tofu"}


def test_paths_follow_the_folders_and_are_ones_that_the_database_accepts(tmp_path: Path) -> None:
    write(tmp_path, **{"main.tf": S3, "Net Work__main.tf": S3, "Net Work__Core__main.tf": S3, "net-work__x.tf": S3})
    paths = propose_paths(find_roots(tmp_path), "infra", "main")
    assert paths == {
        "": "infra/main",
        "Net Work": "infra/net-work/main",
        "Net Work/Core": "infra/net-work/core",
        "net-work": "infra/net-work/main-2",
    }


def test_a_folder_without_a_repository_keeps_its_files_in_the_module(tmp_path: Path) -> None:
    write(tmp_path, **{"a__main.tf": call("./near"), "a__near__main.tf": "", "a__terraform.tfstate": "{}"})
    write(tmp_path, **{"b__main.tf": S3 + call("../a/near"), "c__main.tf": S3, "c__big.json": "x" * 800_000})
    write(tmp_path, **{"d__main.tf": S3})
    (tmp_path / "d/picture.bin").write_bytes(b"\xff\x00")
    with open_repository(str(tmp_path), None) as found:
        by_folder = {root.folder: root for root in find_roots(found.top)}
        problems = {folder: found.problem(root) for folder, root in by_folder.items()}
        assert problems == {"a": "", "b": NEEDS_GIT, "c": TOO_LARGE, "d": NO_TEXT}
        files = {"main.tf": call("./near"), "near/main.tf": ""}
        assert found.spec(by_folder["a"])["source"] == {"files": files}


def test_a_clone_is_fetched_by_runners_from_where_it_came(tmp_path: Path) -> None:
    write(tmp_path, **{"infra__live__main.tf": S3 + call("../../../elsewhere")})
    for command in (
        ["init", "-q", "-b", "trunk"],
        ["remote", "add", "origin", "https://u:p@git.example.com/team/Infra.git"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    with open_repository(str(tmp_path / "infra"), None) as found:
        (root,) = find_roots(found.top)
        assert (found.name, found.problem(root)) == ("infra", "")
        source = {"url": "https://git.example.com/team/Infra.git", "ref": "trunk", "subfolder": "infra/live"}
        assert found.spec(root) == {
            "engine": "tofu", "engine_version": ">= 1.5", "source_kind": "git", "source": source,
        }  # fmt: skip


def test_an_address_is_cloned_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    origin = write(tmp_path / "origin", **{"main.tf": S3})
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(origin), *command], check=True)
    with open_repository(f"file://{origin}", None) as found:
        assert [root.backend for root in find_roots(found.top)] == ["s3"]
    with pytest.raises(CommandError, match="cannot be fetched"), open_repository(f"file://{tmp_path}/none", None):
        pass


@pytest.mark.parametrize(
    ("url", "name", "shown"),
    [
        ("git@git.example.com:team/Infra.git", "infra", "git@git.example.com:team/Infra.git"),
        ("https://token@git.example.com/a/b/", "b", "https://git.example.com/a/b/"),
        ("ssh://git@git.example.com/a/b.git", "b", "ssh://git@git.example.com/a/b.git"),
    ],
)
def test_an_address_loses_its_password_and_gives_the_name(url: str, name: str, shown: str) -> None:
    assert (name_of(url), without_password(url)) == (name, shown)


def test_exported_files_are_no_code(tmp_path: Path) -> None:
    write(tmp_path, **{"apps__site.toml": 'path = "apps/site"'})
    assert not has_code(tmp_path)
    write(tmp_path, **{"deep__er__main.tf": ""})
    assert has_code(tmp_path)


def test_numbers_are_chosen_as_people_write_them() -> None:
    assert numbers_of("1, 3-4", 5) == {1, 3, 4}
    assert numbers_of("all", 2) == {1, 2}
    for wrong in ("6", "0", "4-3", "x", ""):
        with pytest.raises(Usage):
            numbers_of(wrong, 5)
