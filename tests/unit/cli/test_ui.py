"""`slackwater ui`: what the page is about, and the sentence where it can be about nothing."""

import socket
import sys
from pathlib import Path

import pytest

from slackwater.model.gap import Gap
from slackwater.record.recording import encode_recording
from slackwater.ui.page_server import CannotOpenPageError, listen
from tests.unit.cli.served import slackwater
from tests.unit.record.ticks import run


def test_help_has_examples() -> None:
    shown = slackwater("ui", "--help")
    assert shown.returncode == 0
    assert "slackwater ui --open" in shown.stdout
    assert "127.0.0.1 alone" in " ".join(shown.stdout.split())


def test_neither_a_cluster_nor_an_agent(tmp_path: Path) -> None:
    done = slackwater("ui", HOME=str(tmp_path), KUBECONFIG="")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "no cluster is known" in done.stderr


def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    done = slackwater("ui", "--kubeconfig", str(tmp_path / "none"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file"),
        (b"{}", "line 1: apiVersion"),
        (b"", "line 1 is empty"),
    ],
)
def test_a_recording_that_is_none(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    path = tmp_path / "ticks.jsonl"
    if content is not None:
        path.write_bytes(content)
    done = slackwater("ui", "--recording", str(path), "--agent", "/run/none.sock")
    assert done.returncode in (1, 2)
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "ticks.jsonl"
    path.write_bytes(encode_recording(run([Gap("no usage"), 400])))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = slackwater("ui", "--agent", "/run/none.sock", "--port", str(port))
        assert (done.returncode, done.stdout) == (1, "")
        assert f"port {port} of 127.0.0.1 cannot be listened on" in done.stderr
        with pytest.raises(CannotOpenPageError):
            listen(port)


@pytest.mark.parametrize("port", ["-1", "65536", "web"])
def test_a_port_that_is_none(port: str) -> None:
    assert slackwater("ui", "--port", port).returncode == 2


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [each for each in sys.modules if each.startswith("slackwater.ui")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    done = slackwater("ui", "--agent", "/run/none.sock")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "pip install '.[ui]'" in done.stderr
