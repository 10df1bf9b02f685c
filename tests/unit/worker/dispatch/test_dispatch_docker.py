"""Executors in Docker, against a server that speaks its API and runs real processes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tests.unit.worker.dispatch.conftest import RUNNER_TOKEN, MakeSettings
from tests.unit.worker.dispatch.docker_api import DockerApi
from tests.unit.worker.dispatch.processes import write_executor
from tests.unit.worker.dispatch.serving import serve
from worker.dispatch.base import Order
from worker.dispatch.docker import DockerDispatcher
from worker.errors import RunnerUnfit
from worker.settings.dispatcher import parse_bytes

pytestmark = pytest.mark.anyio


@pytest.fixture
def docker(tmp_path: Path) -> DockerApi:
    return DockerApi(write_executor(tmp_path / "bin", 'test "$1 $2" = "run --single" && exit 7'))


@pytest.fixture
def address(docker: DockerApi) -> Iterator[str]:
    with serve(docker.routes()) as address:
        yield address


async def test_the_executor_runs_and_reports_its_exit_code(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings
) -> None:
    settings = make_settings(
        TYPE="docker",
        DATA_HOST=f"tcp://{address}",
        DATA_IMAGE="registry.example/runyard-worker:1.2.3",
        DATA_API_URL="http://inside:8000",
        DATA_MEMORY_LIMIT="42 MB",
        DATA_EXTRA_HOSTS="db:10.0.0.5,host.docker.internal:host-gateway",
        DATA_BIND_PATH="/home/me/.aws:/home/runner/.aws:ro",
        DATA_REGISTRY_USERNAME="me",
        DATA_REGISTRY_PASSWORD="hush",
    )
    dispatcher = DockerDispatcher(settings)
    execution = await dispatcher.start(order)
    assert await execution.wait() == 7
    await execution.remove()
    await dispatcher.close()
    assert docker.removed == [order.name]
    image, auth = docker.pulled[0]
    assert image == "registry.example/runyard-worker:1.2.3"
    assert auth is not None
    assert (auth["username"], auth["password"]) == ("me", "hush")
    host = docker.configs[order.name]["HostConfig"]
    assert host["Memory"] == 42 * 1024 * 1024
    assert host["ExtraHosts"] == ["db:10.0.0.5", "host.docker.internal:host-gateway"]
    assert host["Binds"] == ["/home/me/.aws:/home/runner/.aws:ro"]


async def test_it_gets_one_job_s_credential_and_never_the_runner_s(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings
) -> None:
    settings = make_settings(
        TYPE="docker", DATA_HOST=f"tcp://{address}", DATA_IMAGE="x", DATA_LOCAL_IMAGE="true", DATA_API_URL="http://in:8"
    )
    dispatcher = DockerDispatcher(settings)
    execution = await dispatcher.start(order)
    await execution.wait()
    environment = docker.boxes[order.name].environment
    assert environment["RUNYARD_JOB_TOKEN"] == "job-token"
    assert (environment["RUNYARD_JOB_ID"], environment["RUNYARD_JOB_ATTEMPT"]) == ("41", "2")
    assert environment["SUPABASE_URL"] == "http://in:8"
    assert RUNNER_TOKEN not in json.dumps(docker.configs)
    assert "WORKER_TOKEN" not in environment
    assert docker.pulled == [], "a local image is not pulled"
    await dispatcher.close()


async def test_stop_is_one_signal_and_kill_is_the_end(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings, tmp_path: Path
) -> None:
    mark = tmp_path / "asked"
    ready = tmp_path / "ready"
    script = f"trap 'echo asked >> {mark}' TERM\ntouch {ready}\nwhile true; do sleep 0.05; done"
    write_executor(docker.bin_folder, script)
    settings = make_settings(TYPE="docker", DATA_HOST=f"tcp://{address}", DATA_IMAGE="x", DATA_LOCAL_IMAGE="1")
    dispatcher = DockerDispatcher(settings)
    execution = await dispatcher.start(order)
    wait_until(ready.exists)
    await execution.stop()
    wait_until(mark.exists)
    assert docker.boxes[order.name].exit_code() is None
    await execution.kill()
    assert await execution.wait() == 137
    await execution.kill()
    assert mark.read_text() == "asked\n"
    await dispatcher.close()


async def test_the_same_attempt_is_started_once(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings
) -> None:
    settings = make_settings(TYPE="docker", DATA_HOST=f"tcp://{address}", DATA_IMAGE="x", DATA_LOCAL_IMAGE="1")
    dispatcher = DockerDispatcher(settings)
    first, second = await dispatcher.start(order), await dispatcher.start(order)
    assert (await first.wait(), await second.wait()) == (7, 7)
    assert len(docker.boxes) == 1
    await dispatcher.close()


async def test_an_executor_of_an_earlier_process_is_found_by_its_name(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings
) -> None:
    settings = make_settings(TYPE="docker", DATA_HOST=f"tcp://{address}", DATA_IMAGE="x", DATA_LOCAL_IMAGE="1")
    first, second = DockerDispatcher(settings), DockerDispatcher(settings)
    await (await first.start(order)).wait()
    found = await second.find(order.name)
    assert found is not None
    assert await found.wait() == 7
    assert await second.find("runyard-job-1-1") is None
    await first.close()
    await second.close()


async def test_a_dead_container_is_started_once_more_beside_its_files(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings, tmp_path: Path
) -> None:
    book = tmp_path / "starts"
    write_executor(docker.bin_folder, f"echo start >> {book}; exit 137")
    settings = make_settings(TYPE="docker", DATA_HOST=f"tcp://{address}", DATA_IMAGE="x", DATA_LOCAL_IMAGE="1")
    dispatcher = DockerDispatcher(settings)
    execution = await dispatcher.start(order)
    assert await execution.wait() == 137
    assert await execution.restart() is True
    assert await execution.wait() == 137
    assert book.read_text().splitlines() == ["start", "start"]
    await dispatcher.close()


async def test_an_unreachable_docker_is_not_mistaken_for_a_missing_container(
    order: Order, make_settings: MakeSettings
) -> None:
    dispatcher = DockerDispatcher(make_settings(TYPE="docker", DATA_HOST="tcp://127.0.0.1:9", DATA_IMAGE="x"))
    with pytest.raises(RunnerUnfit):
        await dispatcher.find(order.name)
    await dispatcher.close()


@pytest.mark.parametrize(
    ("image", "words"), [("absent", "pull access denied"), ("locked/runner", "authentication required")]
)
async def test_an_unavailable_image_is_reported_with_the_registrys_message_and_a_remedy(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings, image: str, words: str
) -> None:
    dispatcher = DockerDispatcher(make_settings(TYPE="docker", DATA_HOST=f"tcp://{address}", DATA_IMAGE=image))
    with pytest.raises(RunnerUnfit, match=words) as caught:
        await dispatcher.start(order)
    assert caught.value.code == "image"
    assert caught.value.hint == f"Check that {image} exists, and the registry's user and password."
    await dispatcher.close()


@pytest.mark.parametrize("is_local", ["true", "false"])
async def test_a_probe_reports_a_missing_image_or_an_unreachable_docker(
    docker: DockerApi, address: str, make_settings: MakeSettings, is_local: str
) -> None:
    for host, image, code in (
        (address, "there", ""),
        (address, "absent", "image"),
        ("127.0.0.1:9", "there", "dispatcher"),
    ):
        dispatcher = DockerDispatcher(
            make_settings(TYPE="docker", DATA_HOST=f"tcp://{host}", DATA_IMAGE=image, DATA_LOCAL_IMAGE=is_local)
        )
        found = ""
        try:
            await dispatcher.probe()
        except RunnerUnfit as error:
            found = error.code
        assert found == code, (host, image)
        await dispatcher.close()


async def test_an_unreachable_docker_fails_the_start_with_a_message(order: Order, make_settings: MakeSettings) -> None:
    dispatcher = DockerDispatcher(make_settings(TYPE="docker", DATA_HOST="tcp://127.0.0.1:9", DATA_IMAGE="x"))
    with pytest.raises(RunnerUnfit, match="Docker could not start"):
        await dispatcher.start(order)
    await dispatcher.close()


@pytest.mark.parametrize("host", ["", "localhost:2375"])
async def test_a_docker_that_has_no_socket_yet_is_lacking_and_is_found_later(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch,
    host: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("aiodocker.docker._sock_search_paths", [])
    for name in ("DOCKER_CONTEXT", "DOCKER_HOST"):
        monkeypatch.delenv(name, raising=False)
    if host:
        monkeypatch.setenv("DOCKER_HOST", host)
    dispatcher = DockerDispatcher(make_settings(TYPE="docker", DATA_IMAGE="there", DATA_LOCAL_IMAGE="1"))
    for call in (lambda: dispatcher.start(order), lambda: dispatcher.find(order.name), dispatcher.probe):
        with pytest.raises(RunnerUnfit) as caught:
            await call()
        assert caught.value.code == "dispatcher"
    monkeypatch.setenv("DOCKER_HOST", f"tcp://{address}")
    await dispatcher.probe()
    await dispatcher.close()


async def test_a_container_over_its_memory_limit_is_reported(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings
) -> None:
    docker.out_of_memory.add(order.name)
    settings = make_settings(TYPE="docker", DATA_HOST=f"tcp://{address}", DATA_IMAGE="x", DATA_LOCAL_IMAGE="1")
    dispatcher = DockerDispatcher(settings)
    execution = await dispatcher.start(order)
    await execution.wait()
    assert "out of memory: raise the dispatcher's MemoryLimit" in execution.why
    await dispatcher.close()


async def test_a_container_that_cannot_be_started_is_not_left_behind(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings
) -> None:
    docker.start_problem = "error while creating mount source path '/proc/x'"
    settings = make_settings(TYPE="docker", DATA_HOST=f"tcp://{address}", DATA_IMAGE="x", DATA_LOCAL_IMAGE="1")
    dispatcher = DockerDispatcher(settings)
    with pytest.raises(RunnerUnfit, match="creating mount source path") as caught:
        await dispatcher.start(order)
    assert "binds" in caught.value.hint
    assert docker.removed == [order.name]
    await dispatcher.close()


async def test_a_container_that_was_left_while_docker_was_away_is_removed_when_it_is_back(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings
) -> None:
    docker.start_problem = docker.delete_problem = "the daemon is leaving"
    settings = make_settings(TYPE="docker", DATA_HOST=f"tcp://{address}", DATA_IMAGE="x", DATA_LOCAL_IMAGE="1")
    dispatcher = DockerDispatcher(settings)
    with pytest.raises(RunnerUnfit, match="the daemon is leaving"):
        await dispatcher.start(order)
    await dispatcher.probe()
    assert docker.removed == []
    docker.delete_problem = ""
    await dispatcher.probe()
    assert docker.removed == [order.name]
    await dispatcher.probe()
    assert docker.removed == [order.name]
    await dispatcher.close()


async def test_a_bare_image_with_a_registry_s_password_is_docker_hub_s(
    docker: DockerApi, address: str, order: Order, make_settings: MakeSettings
) -> None:
    settings = make_settings(
        TYPE="docker", DATA_HOST=f"tcp://{address}", DATA_IMAGE="runyard-worker:1", DATA_REGISTRY_USERNAME="me",
        DATA_REGISTRY_PASSWORD="hush",
    )  # fmt: skip
    dispatcher = DockerDispatcher(settings)
    await (await dispatcher.start(order)).wait()
    assert docker.pulled[0][0] == "docker.io/library/runyard-worker:1"
    assert docker.configs[order.name]["Image"] == "runyard-worker:1"
    await dispatcher.close()


@pytest.mark.parametrize(
    ("text", "amount"),
    [("42 MB", 42 * 2**20), ("512Mi", 2**29), ("1.5g", 3 * 2**29), ("1024", 1024), ("2 GiB", 2**31)],
)
def test_memory_is_read_as_people_write_it(text: str, amount: int) -> None:
    assert parse_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "much", "-1 MB", "1 XB"])
def test_an_invalid_amount_of_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("image", "engines"),
    [
        ("labelled:1", {"tofu": "1.12.6", "terraform": "1.9.8"}),
        ("plain:1", None),
        ("absent:1", None),
    ],
)
async def test_the_engines_of_an_image_are_read_off_its_label(
    docker: DockerApi, address: str, make_settings: MakeSettings, image: str, engines: dict[str, str] | None
) -> None:
    docker.labels["labelled:1"] = {"runyard.dev/engines": "tofu=1.12.6,terraform=1.9.8"}
    dispatcher = DockerDispatcher(make_settings(TYPE="docker", DATA_HOST=f"tcp://{address}", DATA_IMAGE=image))
    assert await dispatcher.engines() == engines
    await dispatcher.close()


async def test_an_unreachable_docker_reports_no_engines(make_settings: MakeSettings) -> None:
    dispatcher = DockerDispatcher(make_settings(TYPE="docker", DATA_HOST="tcp://127.0.0.1:9", DATA_IMAGE="x"))
    assert await dispatcher.engines() is None
    await dispatcher.close()
