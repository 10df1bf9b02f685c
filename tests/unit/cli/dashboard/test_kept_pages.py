"""Built pages on their shelf: built once, used for another port, the oldest removed."""

import gzip
import threading
from pathlib import Path

from cli.dashboard.kept_pages import BUILT_ADDRESS, KEPT, provide_page

ENV = "assets/reflex-env-abc.js"


class Builder:
    """A stand-in for Reflex that writes a built page and counts its calls."""

    def __init__(self, client: Path) -> None:
        self.client = client
        self.times = 0

    def __call__(self) -> None:
        self.times += 1
        file = self.client / ENV
        file.parent.mkdir(parents=True)
        text = f"PING:`{BUILT_ADDRESS}/ping`,EVENT:`{BUILT_ADDRESS.replace('http', 'ws')}/_event`"
        file.write_text(text)
        (self.client / f"{ENV}.gz").write_bytes(gzip.compress(text.encode()))
        (self.client / "index.html").write_text("page")


def take(folder: Path, name: str, port: int, fingerprint: str = "sources") -> Builder:
    builder = Builder(folder / name)
    provide_page(folder / "shelf", lambda: fingerprint, builder.client, f"http://localhost:{port}", builder)
    return builder


def test_a_page_is_built_once_and_connects_to_the_port_that_serves_it(tmp_path: Path) -> None:
    assert take(tmp_path, "first", 3100).times == 1
    for name, port in (("first", 3100), ("second", 3200)):
        taken = take(tmp_path, name, port)
        assert taken.times == 0
        expected = f"PING:`http://localhost:{port}/ping`,EVENT:`ws://localhost:{port}/_event`"
        assert (taken.client / ENV).read_text() == expected
        assert gzip.decompress((taken.client / f"{ENV}.gz").read_bytes()).decode() == expected
        assert sorted(path.name for path in taken.client.iterdir()) == ["assets", "index.html"]


def test_a_page_for_an_address_with_tls_connects_with_tls(tmp_path: Path) -> None:
    builder = Builder(tmp_path / "page")
    address = "https://runyard.example.com:8443"
    provide_page(tmp_path / "shelf", lambda: "sources", builder.client, address, builder)
    expected = "PING:`https://runyard.example.com:8443/ping`,EVENT:`wss://runyard.example.com:8443/_event`"
    assert (builder.client / ENV).read_text() == expected


def test_other_sources_are_another_page(tmp_path: Path) -> None:
    take(tmp_path, "first", 3000)
    assert take(tmp_path, "second", 3000, "other sources").times == 1


def test_older_files_in_the_folder_are_removed(tmp_path: Path) -> None:
    take(tmp_path, "first", 3000)
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "stale.js").write_text("old")
    assert not (take(tmp_path, "second", 3000).client / "stale.js").exists()


def test_concurrent_starts_build_once(tmp_path: Path) -> None:
    builders: list[Builder] = []
    threads = [
        threading.Thread(target=lambda at=at: builders.append(take(tmp_path, str(at), 3000 + at))) for at in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(builder.times for builder in builders) == 1
    assert all((builder.client / ENV).exists() for builder in builders)


def test_only_the_newest_pages_are_kept(tmp_path: Path) -> None:
    for number in range(KEPT + 2):
        take(tmp_path, f"client-{number}", 3000, f"sources-{number}")
    kept = [path for path in (tmp_path / "shelf").iterdir() if path.is_dir()]
    assert len(kept) == KEPT


def test_a_page_whose_sources_changed_while_it_was_built_is_not_kept(tmp_path: Path) -> None:
    sources = iter(["before", "after"])
    client = tmp_path / "client"
    provide_page(tmp_path / "shelf", lambda: next(sources), client, BUILT_ADDRESS, Builder(client))
    assert (client / ENV).exists()
    assert [path.name for path in (tmp_path / "shelf").iterdir()] == ["lock"]


def test_a_failed_build_leaves_nothing_on_the_shelf(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError

    for _ in range(2):
        try:
            provide_page(tmp_path / "shelf", lambda: "sources", tmp_path / "client", BUILT_ADDRESS, fail)
        except RuntimeError:
            continue
    assert [path.name for path in (tmp_path / "shelf").iterdir()] == ["lock"]
