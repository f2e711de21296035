"""How the programs of a control plane are called: on loopback, agreed on what they share."""

import ipaddress
import json
import re
from pathlib import Path

import pytest

from tools.cluster import CONTROL_PLANE_PROGRAMS, control_plane
from tools.cluster.certificates import Identity
from tools.cluster.control_plane import CONTROL_PLANE, Files, Ports

FILES = Files(Path("/c"))
PORTS = Ports(21001, 21002, 21003, 21004, 21005)
AUTHORITY = Path("/c/certificates/ca.crt")
SERVING = Identity(Path("/s.crt"), Path("/s.key"))
CLIENT = Identity(Path("/k.crt"), Path("/k.key"))

CALLS = {
    "etcd": control_plane.etcd(FILES, PORTS),
    "kube-apiserver": control_plane.api_server(FILES, PORTS, AUTHORITY, SERVING, CLIENT),
    "kube-controller-manager": control_plane.controller_manager(
        FILES, PORTS.controller_manager, Path("/k"), AUTHORITY
    ),
    "kube-scheduler": control_plane.scheduler(PORTS.scheduler, Path("/k")),
}


def options(program: str) -> dict[str, str]:
    pairs = (argument.removeprefix("--").partition("=") for argument in CALLS[program])
    return {name: value for name, _, value in pairs}


@pytest.mark.parametrize("program", CONTROL_PLANE)
def test_every_argument_is_a_long_option_and_comes_once(program: str) -> None:
    assert all(re.match(r"--[a-z]", argument) for argument in CALLS[program])
    assert len(options(program)) == len(CALLS[program])


@pytest.mark.parametrize("program", CONTROL_PLANE)
def test_no_address_is_beyond_loopback(program: str) -> None:
    """The range of services is nobody's: nothing listens there."""
    named = [value for name, value in options(program).items() if "cluster-ip" not in name]
    addresses = re.findall(r"\d+\.\d+\.\d+\.\d+", " ".join(named))
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses)
    assert addresses


def test_the_parts_agree() -> None:
    server, manager = options("kube-apiserver"), options("kube-controller-manager")
    assert server["etcd-servers"] == options("etcd")["listen-client-urls"]
    assert server["service-account-signing-key-file"] == manager["service-account-private-key-file"]
    assert server["client-ca-file"] == manager["root-ca-file"] == str(AUTHORITY)


def test_pods_find_the_api_server_in_the_range_of_services() -> None:
    services = ipaddress.ip_network(control_plane.SERVICE_ADDRESSES)
    assert str(next(services.hosts())) == control_plane.API_SERVICE_ADDRESS
    assert options("kube-apiserver")["service-cluster-ip-range"] == str(services)


def test_rights_are_asked_for_as_in_a_real_cluster() -> None:
    server = options("kube-apiserver")
    assert server["authorization-mode"] == "Node,RBAC"
    assert server["enable-admission-plugins"] == "NodeRestriction"


def test_each_request_is_in_the_audit_log_once_without_its_body() -> None:
    policy = json.loads(control_plane.AUDIT_POLICY)
    assert policy["rules"] == [{"level": "Metadata"}]
    assert policy["omitStages"] == ["RequestReceived"]
    assert options("kube-apiserver")["audit-log-mode"] == "blocking"


def test_all_files_are_in_the_clusters_folder() -> None:
    parts = (
        FILES.certificates,
        FILES.service_account_key,
        FILES.audit_policy,
        FILES.audit_log,
        FILES.kubeconfigs,
        FILES.logs,
    )
    assert len(set(parts)) == len(parts)
    assert all(part.is_relative_to(FILES.folder) for part in parts)


def test_what_a_control_plane_starts_is_built_for_it() -> None:
    assert set(CONTROL_PLANE) < set(CONTROL_PLANE_PROGRAMS)
