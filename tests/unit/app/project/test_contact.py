"""Contact with the project: silence is noticed by ticks, ends what waits, and refuses what comes, until an answer arrives."""

import asyncio

import pytest

from app.project import contact as contact_module
from app.project.contact import Contact
from app.project.errors import Refused, Unreachable
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio
SILENCE = 0.08


class Project:
    """A project that a test silences, and what was shown of it."""

    def __init__(self) -> None:
        self.contact = Contact(SILENCE)
        self.answers = asyncio.Event()
        self.answers.set()
        self.shown: list[bool] = []

    async def call(self) -> None:
        await self.answers.wait()

    async def is_lost(self) -> bool:
        return self.contact.is_lost

    async def is_back(self) -> bool:
        return not self.contact.is_lost


@pytest.fixture
async def project(monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(contact_module, "TICK_SECONDS", 0.01)
    return Project()


async def test_a_waiting_call_ends_with_the_contact_and_a_new_one_is_not_sent(project: Project) -> None:
    watch = asyncio.create_task(project.contact.watch(project.call, lambda: project.shown.append(True)))
    project.answers.clear()

    async def click() -> None:
        async with project.contact.waiting():
            await project.call()

    with pytest.raises(Unreachable, match="did not answer"):
        await click()
    assert project.contact.is_lost
    sent: list[str] = []
    with pytest.raises(Unreachable, match="does not answer"):
        async with project.contact.waiting():
            sent.append("click")
    assert sent == []
    project.answers.set()
    await eventually(project.is_back)
    await click()
    assert len(project.shown) == 2
    watch.cancel()


async def test_any_answer_proves_contact_even_a_refusal(project: Project) -> None:
    async def refuse() -> None:
        raise Refused("No.")

    watch = asyncio.create_task(project.contact.watch(refuse, lambda: project.shown.append(True)))
    await asyncio.sleep(SILENCE * 3)
    assert project.shown == []
    watch.cancel()


async def test_errors_without_an_answer_lose_contact(project: Project) -> None:
    async def break_down() -> None:
        raise Unreachable

    watch = asyncio.create_task(project.contact.watch(break_down, lambda: None))
    await eventually(project.is_lost)
    watch.cancel()
