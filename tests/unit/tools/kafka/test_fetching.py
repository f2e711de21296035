"""The broker's archives: fetched once, as pinned, or not at all. Maven is a script here."""

import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.children import Children
from tools.kafka import DEBIAN_PACKAGES, NEEDS, fetching
from tools.kafka.__main__ import main
from tools.kafka.fetching import CHECKSUMS, POM, KafkaError, fetch, kept_folder, pinned

ARCHIVES = {"kafka.jar": b"a broker", "scala.jar": b"a language"}
#: Copies the folder `brings`, and notes how it was called.
MAVEN = """#!/bin/sh
here={here}
echo "$@" >> $here/calls
[ -e $here/fails ] && {{ echo 'no such artifact'; exit 1; }}
for each in "$@"; do
    case $each in -DoutputDirectory=*) cp -r $here/brings "${{each#*=}}" ;; esac
done
"""


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its folder: what it brings, its calls, and whether it fails."""
    folder = tmp_path / "maven"
    (folder / "brings").mkdir(parents=True)
    for name, content in ARCHIVES.items():
        (folder / "brings" / name).write_bytes(content)
    for name in NEEDS:
        (folder / name).write_text(MAVEN.format(here=folder))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    checksums = folder / "checksums.txt"
    rows = (f"{hashlib.sha256(text).hexdigest()}  {name}\n" for name, text in ARCHIVES.items())
    checksums.write_text("".join(rows))
    monkeypatch.setattr(fetching, "CHECKSUMS", checksums)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The command sets signal handlers; the test runner wants its own back."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    for number, handler in before.items():
        signal.signal(number, handler)


def test_fetched_once_and_whole(maven: Path, cache: Path) -> None:
    children = Children(maven)
    folder = fetch(children, cache)
    assert folder == kept_folder(cache) == fetch(children, cache)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == ARCHIVES
    assert len((maven / "calls").read_text().splitlines()) == 1


def test_another_pin_is_another_folder(
    maven: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kept_folder(cache)
    (maven / "other.txt").write_text("")
    monkeypatch.setattr(fetching, "CHECKSUMS", maven / "other.txt")
    assert kept_folder(cache) != first


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("kafka.jar", b"another", "kafka.jar is not what checksums.txt says"),
        ("new.jar", b"more", "Maven brought other archives than checksums.txt lists: new.jar"),
    ],
)
def test_what_is_not_as_pinned_is_not_kept(
    maven: Path, cache: Path, name: str, content: bytes, sentence: str
) -> None:
    (maven / "brings" / name).write_bytes(content)
    with pytest.raises(KafkaError, match=sentence):
        fetch(Children(maven), cache)
    assert not kept_folder(cache).exists()


def test_the_pinned_list_is_of_this_kafka() -> None:
    listed = pinned(CHECKSUMS.read_text())
    assert "kafka_2.13-4.0.2.jar" in listed
    assert f"<version>{fetching.VERSION}</version>" in POM.read_text()
    assert all(name.endswith(".jar") and len(digest) == 64 for name, digest in listed.items())


class TestCommand:
    @pytest.mark.usefixtures("maven")
    def test_fetch_prints_the_folder(self, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["fetch"]) == main(["fetch"]) == 0
        said = capsys.readouterr()
        assert said.out == f"{kept_folder(cache)}\n" * 2
        assert said.err == "kafka: fetching Kafka 4.0.2 with Maven\n"

    @pytest.mark.usefixtures("cache")
    def test_what_fails_is_one(self, maven: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (maven / "fails").touch()
        assert main(["fetch"]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.splitlines()[-1] == "no such artifact"

    @pytest.mark.parametrize("action", ["fetch", "check"])
    def test_what_is_missing_is_named_with_its_package(
        self, action: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        assert main([action]) == 1
        assert capsys.readouterr().err == "kafka: mvn is missing: apt-get install maven.\n"

    def test_check_fetches_nothing(self, maven: Path, cache: Path) -> None:
        assert main(["check"]) == 0
        assert not (maven / "calls").exists()
        assert not cache.exists()

    @pytest.mark.parametrize("arguments", [[], ["nonsense"], ["fetch", "more"]])
    def test_wrong_usage_is_two(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert capsys.readouterr().err.startswith("usage: python -m tools.kafka")


def test_setup_installs_what_brings_maven() -> None:
    assert set(DEBIAN_PACKAGES) <= set(NEEDS.values())
