"""`runyard mcp` as an agent uses it: the protocol's own client, a real stack, a runner with a real OpenTofu."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from cli.agents.tools import LONGEST, NOTICE
from cli.jobs.follow import ENDS
from tests.integration.edge.people import Person
from tests.integration.worker_bench import MODULE, Bench
from tests.support.stack import RunningStack, clean_environment
from wire.tokens import make_personal_token

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
CODE = 'resource "terraform_data" "one" {}\n'


@pytest.fixture
def person(running_stack: RunningStack) -> Person:
    return Person(running_stack)


def token_of(person: Person, role: str = "planner") -> str:
    token = make_personal_token()
    person.rpc("create_personal_token", p_name=role, p_token_hash=token.hash, p_hint=token.hint, p_days=1, p_role=role)
    return token.text


def make_module(person: Person, path: str = "shop/network") -> Any:
    group, name = path.split("/")
    person.rpc("upsert_group", p_org=person.org_id, p_path=group)
    spec = {"source_kind": "inline", "source": {"files": {"main.tf": CODE}}}
    return person.rpc("create_module", p_org=person.org_id, p_group_path=group, p_name=name, p_spec=spec)


@asynccontextmanager
async def agent(stack: RunningStack, root: Path, **login: str) -> AsyncIterator[ClientSession]:
    environment = {
        **clean_environment(), **stack.client_environment, "RUNYARD_CONFIG_HOME": str(root / "config"), "PYTHONPATH": str(ROOT), **login
    }  # fmt: skip
    command = ["-m", "cli", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=root)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


async def ask(session: ClientSession, tool: str, **arguments: Any) -> Any:
    answer = await session.call_tool(tool, arguments)
    text = answer.content[0].text
    assert not answer.is_error, text
    notice, document = text.split("\n", 1)
    assert notice == NOTICE
    return json.loads(document)


async def refusal(session: ClientSession, tool: str, **arguments: Any) -> str:
    answer = await session.call_tool(tool, arguments)
    assert answer.is_error
    return str(answer.content[0].text)


async def test_an_agent_looks_and_plans_and_its_member_is_named(person: Person, tmp_path: Path) -> None:
    make_module(person)
    async with agent(person.stack, tmp_path, RUNYARD_TOKEN=token_of(person)) as session:
        names = {tool.name for tool in (await session.list_tools()).tools}
        assert not [
            name for name in names if any(word in name for word in ("apply", "confirm", "state", "value", "variable"))
        ]
        assert (await ask(session, "search_modules", search="net"))["modules"][0]["path"] == "shop/network"
        made = await ask(session, "plan", module="shop/network", reason="What is left to do?")
        number = made["number"]
        assert made["created_by_label"] == f"{person.credentials['email']} through an agent"
        assert (await ask(session, "run", number=number))[0]["status"] == "QUEUED"
        assert (await ask(session, "why_waiting", number=number))["summary"]
        assert {row["name"] for row in await ask(session, "who_may_approve", number=number)} == {
            person.credentials["email"]
        }
        assert (await ask(session, "module", path="shop/network"))["runs"][0]["number"] == number
        assert (await ask(session, "drift"))["total"] == 0
        assert await ask(session, "deliveries") == []
        assert (await ask(session, "cancel", number=number))["status"] == "CANCELLED"


async def test_an_agent_plans_a_folder_below_its_own_and_reads_the_log_by_step(
    served: Bench, running_stack: RunningStack, tmp_path: Path
) -> None:
    (module,) = served.rows("modules", id=served.module())
    root = tmp_path / "work"
    (root / "code").mkdir(parents=True)
    (root / "code/main.tf").write_text(MODULE)
    (root / "away").symlink_to(tmp_path)
    async with agent(running_stack, root, RUNYARD_ACCESS_TOKEN=served.token) as session:
        path = module["path"]
        number = (await ask(session, "plan_folder", module=path, folder="code"))["number"]
        run = {"status": "QUEUED"}
        while run["status"] not in ENDS:
            (run,) = await ask(session, "run", number=number, wait_seconds=60)
        assert run["status"] == "SUCCEEDED", run
        ends = {entry["step"]: entry["end"] for entry in run["log"]}
        assert "terraform_data.greeting" in ends["plan"]
        (plan,) = (await ask(session, "run", number=number, step="plan"))[0]["log"]
        assert plan["step"] == "plan"
        changes = await ask(session, "plan_changes", number=number, resource="terraform_data.greeting")
        assert [each["address"] for each in changes["resources"]] == ["terraform_data.greeting"]
        assert "correct-horse-battery" not in json.dumps([run, await ask(session, "plan_changes", number=number)])
        for outside in ("..", "/etc", "away"):
            assert "is outside" in await refusal(session, "plan_folder", module=path, folder=outside)


async def test_an_agent_is_refused_what_its_token_may_not_and_what_is_another_s(person: Person, tmp_path: Path) -> None:
    other = Person(person.stack)
    theirs = make_module(other)
    mine = make_module(person)
    queued = person.rpc("enqueue_job", p_org=person.org_id, p_module=mine["id"], p_type="PLAN", p_options={})
    async with agent(person.stack, tmp_path, RUNYARD_TOKEN=token_of(person)) as session:
        assert "There is no module" in await refusal(session, "module", path=theirs["id"])
        assert "There is no module" in await refusal(session, "plan", module=theirs["id"])
        assert "There is no job 9999" in await refusal(session, "run", number=9999)
        assert "kind" in await refusal(session, "plan", module="shop/network", kind="APPLY")
        assert "limit" in await refusal(session, "runs", limit=5000)
        assert await ask(session, "cancel", number=queued["number"])
    async with agent(person.stack, tmp_path, RUNYARD_TOKEN=token_of(person, "viewer")) as session:
        assert "may not job.plan" in await refusal(session, "plan", module="shop/network")


async def test_a_long_answer_is_cut_and_says_so(person: Person, tmp_path: Path) -> None:
    for number in range(50):
        make_module(person, f"shop/{'n' * 50}-{number}")
    async with agent(person.stack, tmp_path, RUNYARD_TOKEN=token_of(person)) as session:
        answer = await session.call_tool("search_modules", {})
        assert len(answer.content[0].text) < LONGEST + 1_000
