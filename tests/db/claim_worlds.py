"""Random runners and jobs, as the claim's rules (`claim_model.py`) see them."""

import random
from dataclasses import dataclass
from typing import Any

from tests.db.claim_model import ModelJob, ModelRunner

LABELS = ("gpu", "zone=eu", "arm")
TYPES = ("PLAN", "APPLY", "DESTROY", "OUTPUT", "DRIFT")
EVERY_TYPE = (
    *TYPES,
    "DEPLOY_WORKER",
    "UPDATE_WORKER",
    "REMOVE_WORKER",
    "VERIFY_IDENTITY",
    "RESOLVE",
    "STATE",
    "POLICY_TEST",
)
GROUPS = tuple(f"{a}/{b}/{c}" for a in ("net", "app", "data") for b in ("eu", "us") for c in ("prod", "test"))


@dataclass
class RandomRunner(ModelRunner):
    """A runner that also knows why it cannot work, and its id in the database."""

    trouble: str = ""
    id: str = ""


def random_runner(dice: random.Random, number: int, org: str | None) -> RandomRunner:
    """A runner with random rules; one in four cannot work just now."""
    paths = [group.rsplit("/", dice.randrange(3))[0] for group in dice.sample(GROUPS, dice.randrange(4))]
    runner = RandomRunner(
        name=f"runner-{number}",
        org=org,
        paths=frozenset(paths if org else []),
        is_everywhere=org is not None and (not paths or dice.random() < 0.2),
        labels=frozenset(dice.sample(LABELS, dice.randrange(len(LABELS) + 1))),
        types=frozenset(EVERY_TYPE if dice.random() < 0.8 else dice.sample(TYPES, 3)),
        capacity=dice.randint(1, 4),
        instances=frozenset(["one", "two"][: 1 + (number % 3 == 0)]),
        trouble=dice.choice(["draining", "disabled", "offline"]) if dice.random() < 0.25 else "",
    )
    runner.is_well = not runner.trouble
    return runner


def random_job(
    dice: random.Random, org: str, modules: list[str], runners: list[RandomRunner]
) -> tuple[ModelJob, dict[str, Any]]:
    """A job with random needs, and the options that request it; most need little, as in life. Its number comes from the database."""
    options: dict[str, Any] = {}
    pinned = None
    if dice.random() < 0.3:
        options["labels"] = dice.sample(LABELS, dice.randint(1, 2))
    if dice.random() < 0.3:
        options["priority"] = dice.choice([10, 50, 200])
    if dice.random() < 0.1:
        pinned = dice.choice([runner for runner in runners if runner.org in (None, org)])
        options["pinned_worker_id"] = pinned.id
    if dice.random() < 0.1:
        options["pinned_instance_name"] = dice.choice(["one", "two", "three"])
    job = ModelJob(
        id=0,
        org=org,
        module=dice.choice(modules),
        type=dice.choice(TYPES),
        labels=frozenset(options.get("labels", [])),
        priority=options.get("priority", 100),
        pinned_runner=pinned.name if pinned else None,
        pinned_instance=options.get("pinned_instance_name"),
    )
    return job, options
