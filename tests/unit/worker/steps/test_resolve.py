"""Reading a repository: fingerprints follow the content of a module's folders, and nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.fakes import Network
from tests.unit.worker.steps.git_places import git, listening, make_repository
from tests.unit.worker.workspaces import log_of, open_workspace
from worker.attempt.workspace import Workspace
from worker.enums import JobType
from worker.errors import JobFailed
from worker.steps.git import fetch_git
from worker.steps.resolve import resolve

pytestmark = pytest.mark.anyio
FILES = {
    "vpc/main.tf": 'module "subnets" {\n  source = "../modules/subnets"\n}\n',
    "modules/subnets/main.tf": 'module "names" { source = "../names" }\n',
    "modules/names/main.tf": "locals {}\n",
    "modules/unused/main.tf": "locals {}\n",
    "dns/main.tf": "locals {}\n",
    "shared/values.json": "{}\n",
    "README.md": "hello\n",
}


class Place:
    """A repository, and a runner that reads it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.origin = make_repository(base / "origin", FILES)
        self.first = self.head()
        self.url = str(self.origin)
        self.readings = 0
        self.environ = {"RUNYARD__ENGINE__ISOLATION__READONLYPATHS": str(base)}
        self.space: Workspace | None = None

    def commit(self, **files: str) -> str:
        """Change files, given by path with __ for a slash and no ending for .tf."""
        for name, content in files.items():
            path = self.origin / f"{name.replace('__', '/')}.tf"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        git(self.origin, "add", "-A")
        git(self.origin, "commit", "-q", "--allow-empty", "-m", "next")
        return self.head()

    def head(self, ref: str = "HEAD") -> str:
        return git(self.origin, "rev-parse", ref)

    async def read(self, *modules: dict[str, Any], **work: Any) -> dict[str, Any]:
        asked = [{"id": each["folder"], "branch": "main", **each} for each in modules]
        answer = {"url": self.url, "digest": "d", "modules": asked, **work}
        self.readings += 1
        self.space = open_workspace(
            self.base / f"runner-{self.readings}", kind=JobType.RESOLVE, network=Network(lambda *_: answer),
            environ=self.environ,
        )  # fmt: skip
        await resolve(self.space)
        found: dict[str, Any] = self.space.result["git"]
        return found

    async def fingerprint(self, folder: str = "vpc", **module: Any) -> str:
        found = await self.read({"folder": folder, **module})
        return str(found["modules"][0]["fingerprint"])


@pytest.fixture(params=["file", "http", "filtering http"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    if request.param == "file":
        yield made
        return
    if request.param == "filtering http":
        git(made.origin, "config", "uploadpack.allowFilter", "true")
    with listening(tmp_path) as server:
        made.url = f"{server.url}/origin/.git"
        yield made


async def test_a_module_is_watched_with_its_local_modules_and_theirs(place: Place) -> None:
    (module,) = (await place.read({"folder": "vpc"}))["modules"]
    assert module["watched"] == ["modules/names", "modules/subnets", "vpc"]
    assert (module["branch"], module["commit"]) == ("main", place.head())


@pytest.mark.parametrize("name", ["vpc__main", "modules__subnets__new", "modules__names__main"])
async def test_a_change_of_a_watched_folder_changes_the_fingerprint(place: Place, name: str) -> None:
    before = await place.fingerprint()
    place.commit(**{name: "locals { changed = true }\n"})
    assert await place.fingerprint() != before


async def test_changes_elsewhere_and_rewritten_history_leave_the_fingerprint(place: Place) -> None:
    before = await place.fingerprint()
    place.commit(modules__unused__main="locals { changed = true }\n", dns__main="locals { changed = true }\n")
    assert await place.fingerprint() == before
    git(place.origin, "commit", "-q", "--amend", "-m", "rewritten")
    assert await place.fingerprint() == before


async def test_added_paths_count_too_whether_they_exist_or_not(place: Place) -> None:
    before = await place.fingerprint(paths=["shared", "later"])
    (place.origin / "shared/values.json").write_text('{"a": 1}\n')
    place.commit()
    changed = await place.fingerprint(paths=["shared", "later"])
    assert changed != before
    place.commit(later__x="locals {}\n")
    assert await place.fingerprint(paths=["shared", "later"]) != changed


async def test_a_module_at_the_root_is_the_whole_repository(place: Place) -> None:
    before = await place.fingerprint("")
    (place.origin / "README.md").write_text("changed\n")
    place.commit()
    assert await place.fingerprint("") != before


async def test_the_applied_commit_is_compared_with_the_same_rules(place: Place) -> None:
    applied = place.head()
    place.commit(dns__main="locals { changed = true }\n")
    found = await place.read({"folder": "vpc", "applied_commit": applied}, {"folder": "dns", "applied_commit": applied})
    vpc, dns = found["modules"]
    assert vpc["applied_fingerprint"] == vpc["fingerprint"]
    assert dns["applied_fingerprint"] not in {None, dns["fingerprint"]}


async def test_a_missing_applied_commit_has_no_fingerprint(place: Place) -> None:
    (module,) = (await place.read({"folder": "vpc", "applied_commit": "1" * 40}))["modules"]
    assert module["applied_fingerprint"] is None
    assert module["fingerprint"]


async def test_branches_and_folders_that_are_missing_are_named(place: Place) -> None:
    found = await place.read({"folder": "vpc", "branch": "release"}, {"folder": "nowhere"})
    assert [module["problem"] for module in found["modules"]] == [
        'The repository has no branch "release".',
        'main has no folder "nowhere".',
    ]


async def moved(place: Place, folder: str = "vpc", **more: Any) -> Any:
    """Read a folder before and after the moves that were made since the first commit."""
    tip = place.head()
    git(place.origin, "reset", "-q", "--hard", place.first)
    (module,) = (await place.read({"folder": folder}))["modules"]
    git(place.origin, "reset", "-q", "--hard", tip)
    seen = {folder: {name: module[name] for name in ("fingerprint", "watched")} | more}
    others = [{"folder": each} for each in more.get("others", ())]
    return (await place.read({"folder": folder}, *others, seen=seen))["modules"][0]


async def test_a_moved_folder_is_found_by_its_content(place: Place) -> None:
    git(place.origin, "mv", "vpc", "network")
    place.commit()
    module = await moved(place)
    assert (module["problem"], module["moved_to"]) == ('main has no folder "vpc".', "network")
    assert "fingerprint" not in module


async def test_a_folder_that_moved_with_its_local_modules_is_found(place: Place) -> None:
    (place.origin / "live").mkdir()
    git(place.origin, "mv", "vpc", "modules", "live")
    place.commit()
    assert (await moved(place))["moved_to"] == "live/vpc"


async def test_changed_content_is_no_move_unless_it_was_found_before(place: Place) -> None:
    git(place.origin, "mv", "vpc", "network")
    place.commit(network__main="locals {}\n")
    assert (await moved(place))["moved_to"] is None
    assert (await moved(place, moved_to="network"))["moved_to"] == "network"
    assert (await moved(place, moved_to="elsewhere"))["moved_to"] is None


async def test_the_folder_of_another_module_and_two_equal_copies_are_no_move(place: Place) -> None:
    git(place.origin, "mv", "vpc", "network")
    place.commit()
    assert (await moved(place, others=["network"]))["moved_to"] is None
    place.commit(copy__main=FILES["vpc/main.tf"])
    assert (await moved(place))["moved_to"] is None


async def test_a_pull_request_that_moves_a_folder_names_both(place: Place) -> None:
    git(place.origin, "checkout", "-q", "-b", "rename")
    git(place.origin, "mv", "vpc", "network")
    place.commit()
    git(place.origin, "update-ref", "refs/pull/7/head", "HEAD")
    git(place.origin, "checkout", "-q", "main")
    pull = {"number": 7, "base": "main", "ref": "refs/pull/7/head"}
    found = await place.read({"folder": "vpc"}, {"folder": "nowhere"}, pull_requests=[pull])
    assert found["pull_requests"][0]["modules"] == [{"id": "vpc", "is_missing": True, "moved_to": "network"}]


async def test_modules_follow_their_own_branches_and_the_default_one(place: Place) -> None:
    git(place.origin, "checkout", "-q", "-b", "release/2.1")
    released = place.commit(vpc__main="locals {}\n")
    git(place.origin, "checkout", "-q", "main")
    found = await place.read({"folder": "vpc", "branch": "release/2.1"}, {"folder": "dns", "branch": None})
    assert [(module["branch"], module["commit"]) for module in found["modules"]] == [
        ("release/2.1", released),
        ("main", place.head()),
    ]
    assert found["heads"] == {"refs/heads/release/2.1": released, "refs/heads/main": place.head()}
    described = {"author": "Test", "subject": "next", "emails": ["test@example.com"]}
    assert found["commits"][released] == described


async def test_heads_that_have_not_moved_are_not_fetched(place: Place) -> None:
    heads = (await place.read({"folder": "vpc"}))["heads"]
    assert await place.read({"folder": "vpc"}, known_heads=heads) == {"digest": "d", "heads": heads}
    assert place.space is not None
    assert "git fetch" not in log_of(place.space)
    place.commit()
    assert "modules" in await place.read({"folder": "vpc"}, known_heads=heads)


def announce(place: Place, number: int, *, base: str = "main") -> dict[str, Any]:
    """Create a provider's ref for a pull request of the current checkout, and return the server's question about it."""
    git(place.origin, "update-ref", f"refs/pull/{number}/head", "HEAD")
    return {"number": number, "base": base, "ref": f"refs/pull/{number}/head"}


async def test_a_pull_request_is_read_as_its_merge_with_the_base(place: Place) -> None:
    git(place.origin, "checkout", "-q", "-b", "feature")
    head = place.commit(vpc__main="locals { feature = true }\n")
    pull = announce(place, 7)
    git(place.origin, "checkout", "-q", "main")
    place.commit(dns__main="locals { moved = true }\n")
    modules = ({"folder": "vpc"}, {"folder": "dns"}, {"folder": "shared", "branch": "feature"})
    found = await place.read(*modules, pull_requests=[pull])
    (report,) = found["pull_requests"]
    assert (report["number"], report["head_commit"], report["base_commit"]) == (7, head, place.head("main"))
    vpc, dns = report["modules"]
    assert vpc["fingerprint"] != vpc["base_fingerprint"]
    assert dns["fingerprint"] == dns["base_fingerprint"], (
        "a change in the base alone does not count as a change of the request"
    )
    assert found["heads"]["refs/pull/7/head"] == head
    assert await place.read(*modules, pull_requests=[pull], known_heads=found["heads"]) == {
        "digest": "d",
        "heads": found["heads"],
    }


async def test_everybody_who_is_named_in_the_commits_of_a_pull_request_is_reported(place: Place) -> None:
    git(place.origin, "checkout", "-q", "-b", "feature")
    place.commit(vpc__main="locals { feature = 1 }\n")
    git(place.origin, "commit", "-q", "--amend", "--author", "Ann <ann@example.com>", "-m", "first")
    place.commit(vpc__main="locals { feature = 2 }\n")
    git(place.origin, "commit", "-q", "--amend", "-m", "second\n\nCo-authored-by: Eve <eve@example.com>")
    pull = announce(place, 7)
    git(place.origin, "checkout", "-q", "main")
    (report,) = (await place.read({"folder": "vpc"}, pull_requests=[pull]))["pull_requests"]
    assert report["emails"] == ["ann@example.com", "eve@example.com", "test@example.com"]


async def test_a_conflict_and_a_missing_ref_are_problems_of_their_pull_request_alone(place: Place) -> None:
    git(place.origin, "checkout", "-q", "-b", "feature")
    place.commit(vpc__main="locals { feature = true }\n")
    pull = announce(place, 7)
    git(place.origin, "checkout", "-q", "main")
    place.commit(vpc__main="locals { other = true }\n")
    git(place.origin, "checkout", "-q", "--orphan", "elsewhere")
    place.commit(vpc__main="locals { unrelated = true }\n")
    stray = announce(place, 8)
    gone = {"number": 9, "base": "main", "ref": "refs/pull/9/head"}
    found = await place.read({"folder": "vpc"}, pull_requests=[pull, stray, gone])
    conflict, unrelated, missing = (report["problem"] for report in found["pull_requests"])
    assert conflict == "It conflicts with main. Merge main into it first."
    assert unrelated.startswith("It cannot be merged:")
    assert missing == "The repository has no refs/pull/9/head."
    assert found["modules"][0]["fingerprint"]


async def test_the_plan_of_a_pull_request_fetches_that_merge(place: Place) -> None:
    base = place.head()
    git(place.origin, "checkout", "-q", "-b", "feature")
    head = place.commit(vpc__main="locals { feature = true }\n")
    announce(place, 7)
    git(place.origin, "checkout", "-q", "main")
    moved = place.commit(dns__main="locals { moved = true }\n")
    await place.read({"folder": "vpc"})
    assert place.space is not None
    space = open_workspace(place.base / "planner", environ=place.environ)
    source = {"url": place.url, "ref": "main", "merge": {"base": moved, "head": head, "ref": "refs/pull/7/head"}}
    assert await fetch_git(space, source) == head
    assert "feature" in (space.source / "vpc/main.tf").read_text()
    assert "moved" in (space.source / "dns/main.tf").read_text()
    space = open_workspace(place.base / "refuser", environ=place.environ)
    with pytest.raises(JobFailed):
        await fetch_git(space, {**source, "merge": {"base": base, "head": "--upload-pack=x"}})


async def test_a_missing_repository_fails_the_job(place: Place) -> None:
    place.url = str(place.base / "nowhere")
    with pytest.raises(JobFailed) as caught:
        await place.read({"folder": "vpc"})
    assert caught.value.code == "fetch_failed"


async def test_an_answer_that_cannot_be_read_fails_the_job(place: Place) -> None:
    with pytest.raises(JobFailed) as caught:
        await place.read({"folder": "vpc"}, modules="none")
    assert caught.value.code == "bad_payload"


async def test_commits_since_the_applied_one_are_counted(place: Place) -> None:
    applied = place.head()
    for number in range(3):
        place.commit(dns__main=f"locals {{ n = {number} }}\n")
    asked: list[dict[str, Any]] = [
        {"folder": "vpc", "count_from": applied}, {"folder": "dns", "count_from": place.head()},
        {"folder": "modules/names", "count_from": "a" * 40}, {"folder": "modules/unused"},
    ]  # fmt: skip
    found = await place.read(*asked)
    assert [each["ahead"] for each in found["modules"]] == [3, 0, None, None]


async def test_another_commit_of_a_submodule_changes_the_fingerprint(place: Place) -> None:
    def pin(commit: str) -> None:
        git(place.origin, "update-index", "--add", "--cacheinfo", f"160000,{commit},vpc/vendored")
        git(place.origin, "commit", "-q", "-m", "pin")

    pin("a" * 40)
    first, other = await place.fingerprint(), await place.fingerprint("dns")
    pin("b" * 40)
    assert await place.fingerprint() != first
    assert await place.fingerprint("dns") == other
