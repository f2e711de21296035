"""What a broker is told, and a broker that cannot be: Java is a script here."""

import os
from pathlib import Path

import pytest

from tools.cluster.processes import ClusterError
from tools.kafka.broker import Broker, Credentials, properties
from tools.kafka.fetching import KafkaError

PORTS = [20001, 20002, 20003]
CREDENTIALS = Credentials("CERT\nIFICATE\n", "KEY\n", "reader", "sesame")


def rows(credentials: Credentials | None) -> dict[str, str]:
    text = properties(Path("/folder"), PORTS, credentials)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_it_listens_on_loopback_only() -> None:
    plain, secure = rows(None)["listeners"], rows(CREDENTIALS)["listeners"]
    assert plain == "PLAINTEXT://127.0.0.1:20001,CONTROLLER://127.0.0.1:20002"
    assert secure == f"{plain},SASL_SSL://127.0.0.1:20003"


def test_a_certificate_is_one_line() -> None:
    told = rows(CREDENTIALS)
    assert told["listener.name.sasl_ssl.ssl.keystore.certificate.chain"] == "CERT\\nIFICATE"
    assert told["listener.name.sasl_ssl.plain.sasl.jaas.config"].endswith(
        ' required user_reader="sesame";'
    )
    assert rows(None).keys() < told.keys()


def test_nothing_is_written_outside_its_folder() -> None:
    assert rows(None)["log.dirs"] == "/folder/data"


def java(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "java").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_folder_that_cannot_be_formatted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path, monkeypatch, "echo 'UnsupportedClassVersionError' >&2; exit 1")
    with pytest.raises(KafkaError, match="the broker's folder: UnsupportedClassVersionError"):
        Broker(tmp_path, tmp_path).open()


def test_a_broker_that_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path, monkeypatch, 'case "$*" in *StorageTool*) exit 0;; esac; echo no memory')
    broker = Broker(tmp_path, tmp_path)
    with pytest.raises(ClusterError, match="kafka ended by itself:\nno memory"):
        broker.open()
    broker.close()


def test_addresses_are_different(tmp_path: Path) -> None:
    broker = Broker(tmp_path, tmp_path)
    assert broker.address.startswith("127.0.0.1:")
    assert broker.address != broker.secure_address
