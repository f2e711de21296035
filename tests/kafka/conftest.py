"""One real broker for the session, on loopback. Who kills it starts it again."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.kafka.topics import Topics
from tools.children import Children
from tools.cluster.processes import LOOPBACK
from tools.kafka.broker import Broker, Credentials
from tools.kafka.fetching import fetch
from tools.provision import ROOT, cache_folder

USERNAME, PASSWORD = "reader", "open sesame"


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def broker(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    archives = fetch(Children(ROOT), cache_folder(os.environ))
    made = Broker(tmp_path_factory.mktemp("broker"), archives, credentials(authority))
    try:
        made.open()
        yield made
    finally:
        made.close()


@pytest.fixture
def topics(broker: Broker) -> Iterator[Topics]:
    made = Topics(broker.address)
    yield made
    made.close()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return str(tmp_path / "ca.pem")


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    (tmp_path / "password").write_text(PASSWORD + "\n")
    return tmp_path / "password"


def credentials(authority: trustme.CA) -> Credentials:
    """Java reads keys as PKCS #8 only."""
    issued = authority.issue_cert(LOOPBACK)
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    packed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
    return Credentials(chain.decode(), packed.decode(), USERNAME, PASSWORD)
