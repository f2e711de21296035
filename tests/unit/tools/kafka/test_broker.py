"""What a broker is told, and a broker that cannot be: Java is a script here."""

import os
from pathlib import Path

import pytest

from tools.kafka.broker import Credentials, properties

PORTS = [20001, 20002, 20003]
CREDENTIALS = Credentials("CERT\nIFICATE\n", "KEY\n", "reader", "sesame")


def rows(credentials: Credentials | None) -> dict[str, str]:
    text = properties(Path("/folder"), PORTS, credentials)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_it_listens_on_loopback_only() -> None:
    plain, secure = rows(None)["listeners"], rows(CREDENTIALS)["listeners"]
    assert plain == "PLAINTEXT://127.0.0.1:20001,CONTROLLER://127.0.0.1:20002"
    assert secure == f"{plain},SASL_SSL://127.0.0.1:20003"


def test_nothing_is_written_outside_its_folder() -> None:
    assert rows(None)["log.dirs"] == "/folder/data"


def java(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "java").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
