"""Random sets with bindings, planned and applied by and by: the database agrees with a small model after each step."""

from random import Random
from typing import Any

import pytest

from tests.db.order_model import random_dag
from tests.db.test_set_order import start
from tests.db.test_set_reviews import planned, review
from tests.db.world import Organization
from tests.support.extent import sampled


class Previews:
    """A set of plans; beside it the model: the newest plans, whether each is a preview, what they change, who was applied."""

    def __init__(self, org: Organization, chance: Random) -> None:
        self.org, self.chance = org, chance
        self.names, self.edges = random_dag(chance, most=7)
        for path in self.names:
            org.module(path)
        for before, after in self.edges:
            ends = {"p_consumer": org.modules[after], "p_producer": org.modules[before]}
            org.owner.call("set_dependency", **ends, p_options={"bindings": {before.replace("/", "_"): "o"}})
        self.runner = org.runner("r", is_assigned_to_all_modules=True, capacity=50)
        self.made = start(org, "PLAN", "dag")
        self.placed: dict[str, bool] = {}
        self.kinds: dict[str, str] = {}
        self.applied: set[str] = set()
        self.applying: set[str] = set()
        self.claimed: dict[tuple[str, str], dict[str, Any]] = {}
        self.place()

    def befores(self, path: str) -> set[str]:
        return {before for before, after in self.edges if after == path}

    def is_open(self, path: str, kind: str) -> bool:
        return any(self.kinds.get(each) == kind for each in self.befores(path) - self.applied)

    def place(self) -> None:
        for path in self.names:
            is_ready = self.befores(path) <= set(self.kinds) and not self.is_open(path, "unknown")
            if path not in self.placed and is_ready:
                self.placed[path] = self.is_open(path, "known") or any(self.placed[each] for each in self.befores(path))

    def reached(self, found: set[str], among: set[str]) -> set[str]:
        """These, and those of some modules that depend on them at any distance."""
        while fresh := {after for before, after in self.edges if before in found and after in among} - found:
            found = found | fresh
        return found

    def check(self) -> None:
        rows = review(self.org, self.made)
        assert {path: row["is_preview"] for path, row in rows.items() if row["status"]} == self.placed
        free = set(self.names) - set(self.placed)
        waiting = self.reached({path for path in free if self.is_open(path, "unknown")}, free)
        assert {path for path, row in rows.items() if str(row["message"]).startswith("Waits for")} == waiting
        ready = {path for path in self.kinds if not self.placed[path]} - self.applied - self.applying
        assert {path for path, row in rows.items() if row["decision"] == "apply"} >= ready

    def claim(self) -> None:
        for job in self.runner.claim(self.chance.randint(1, 3)):
            self.claimed[str(job["type"]), str(job["module_path"])] = job
            if job["type"] == "APPLY":
                late = self.befores(str(job["module_path"])) & self.applying - self.applied
                assert not late, "nothing is applied before its dependencies"

    def end(self) -> None:
        if not self.claimed:
            return
        kind, path = self.chance.choice(sorted(self.claimed))
        job = self.claimed.pop((kind, path))
        if kind == "PLAN":
            self.end_plan(path, job)
        else:
            self.runner.finish(job)
            self.applied.add(path)
            previews = {after for before, after in self.edges if before == path and self.placed.get(after)}
            for each in self.reached(previews, {name for name, is_one in self.placed.items() if is_one}):
                self.placed.pop(each)
                self.kinds.pop(each, None)
        self.place()

    def end_plan(self, path: str, job: dict[str, Any]) -> None:
        """End a plan; one that was replaced meanwhile counts for nothing."""
        change = self.chance.choice(("same", "known", "unknown"))
        outputs = {"same": [], "known": [{"name": "o", "value": path}], "unknown": [{"name": "o"}]}
        is_newest = review(self.org, self.made)[path]["job_number"] == job["number"]
        planned(self.runner, job, 1, outputs[change])
        if is_newest:
            self.kinds[path] = change

    def confirm(self) -> None:
        ready = {path for path in self.kinds if not self.placed[path]} - self.applied
        if ready and self.applying <= self.applied:
            self.org.owner.call("confirm_set", p_set=self.made)
            self.applying |= ready

    def step(self) -> None:
        self.chance.choice((self.claim, self.claim, self.end, self.end, self.confirm))()
        self.check()


@pytest.mark.parametrize("seed", sampled(range(40), 8))
def test_previews_agree_with_their_model_and_all_is_applied_once_in_the_end(org: Organization, seed: int) -> None:
    chain = Previews(org, Random(seed))
    for _ in range(400):
        chain.step()
        if len(chain.applied) == len(chain.names):
            break
    assert chain.applied == set(chain.names)
    applies = org.owner.rows(
        "select module_path from public.provision_jobs where type = 'APPLY' and org_id = %s", org.id
    )
    assert sorted(applies) == sorted(chain.names)
