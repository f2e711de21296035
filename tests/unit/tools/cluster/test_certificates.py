"""Certificates: who they say one is, for which hosts, and that their keys are private."""

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tools.cluster.certificates import (
    ADMIN,
    USERS,
    Authority,
    Identity,
    User,
    api_server_hosts,
    file_name,
    node_user,
    write_service_account_key,
)


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def subject(identity: Identity) -> tuple[str, str]:
    """The name and the group that Kubernetes reads."""
    name = read(identity.certificate).subject
    [common] = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    [organization] = name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(common.value), str(organization.value)


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (USERS[ADMIN], ("admin", "system:masters")),
        (
            USERS["system:kube-scheduler"],
            ("system:kube-scheduler", "system:kube-scheduler"),
        ),
        (node_user("node"), ("system:node:node", "system:nodes")),
        (User("jane", "readers"), ("jane", "readers")),
    ],
)
def test_a_client_is_its_name_and_group(
    user: User, expected: tuple[str, str], tmp_path: Path
) -> None:
    identity = Authority(tmp_path).client(user)
    assert subject(identity) == expected
    usage = read(identity.certificate).extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert ExtendedKeyUsageOID.CLIENT_AUTH in usage.value


def test_a_clients_list_of_hosts_is_not_empty(tmp_path: Path) -> None:
    """Go takes an empty one for an extension that it does not know, and refuses it."""
    identity = Authority(tmp_path).client(User("jane", "readers"))
    hosts = read(identity.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert len([*hosts.value]) == 1


def test_a_server_is_known_by_all_its_hosts(tmp_path: Path) -> None:
    identity = Authority(tmp_path).serving("kube-apiserver", api_server_hosts("10.0.0.1"))
    found = read(identity.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    addresses = found.value.get_values_for_type(x509.IPAddress)
    assert {str(address) for address in addresses} == {"127.0.0.1", "10.0.0.1"}
    names = found.value.get_values_for_type(x509.DNSName)
    assert {"localhost", "kubernetes.default.svc"} <= set(names)


def test_the_authority_signed_them(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "one")
    issued = read(authority.client(USERS[ADMIN]).certificate)
    issued.verify_directly_issued_by(read(authority.certificate))
    other = Authority(tmp_path / "two")
    assert read(other.certificate).public_key() != read(authority.certificate).public_key()


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    write_service_account_key(tmp_path / "accounts.key")
    for key in (authority.client(USERS[ADMIN]).key, tmp_path / "accounts.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        read_key = serialization.load_pem_private_key(key.read_bytes(), None)
        assert isinstance(read_key, ec.EllipticCurvePrivateKey)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("admin", "admin"), ("system:node:a", "system-node-a"), ("a/b", "a-b")],
)
def test_a_users_files_have_its_name_as_far_as_files_can(name: str, expected: str) -> None:
    assert file_name(User(name, "g")) == expected
