"""One node for the session, in a virtual machine of tools.vm; refuses to run anywhere else."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.launching import import_machinery
from tests.kubelet.node import Node
from tests.kubelet.standalone import Standalone
from tools.cluster import NODE_PROGRAMS
from tools.kubernetes.programs import variable_of

DRIVERS = {"v2": "cgroupfs", "v2-systemd": "systemd"}
KERNEL_VARIABLE = "SLACKWATER_TEST_KERNEL"


def driver_name() -> str:
    named = os.environ.get(KERNEL_VARIABLE, "")
    if named not in DRIVERS or not os.path.isdir("/run/slackwater-vm"):
        raise pytest.UsageError(
            f"tests/kubelet runs in a virtual machine of tools.vm with {KERNEL_VARIABLE} one of "
            f"{sorted(DRIVERS)}; here it is {named!r}"
        )
    return DRIVERS[named]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is about the other driver runs there; nothing is skipped."""
    other = {"cgroupfs", "systemd"} - {driver_name()}
    left = [item for item in items if other & {mark.name for mark in item.iter_markers()}]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def session_node() -> Iterator[Node]:
    programs = {name: Path(os.environ.get(variable_of(name), "")) for name in NODE_PROGRAMS}
    lacking = [name for name, path in programs.items() if not path.is_file()]
    assert not lacking, (
        f"{', '.join(map(variable_of, lacking))} must each name a program: "
        f"python -m tools.kubernetes build {' '.join(lacking)}"
    )
    made = Node(driver_name(), programs)
    try:
        made.start()
        import_machinery()
        yield made
    finally:
        made.close()


@pytest.fixture
def node(session_node: Node) -> Iterator[Node]:
    """With the pods of its list alone, before each test."""
    yield session_node
    session_node.end_added_pods()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Callable[..., Standalone]]:
    made: list[Standalone] = []

    def make(*place: str) -> Standalone:
        made.append(Standalone(tmp_path, *place))
        return made[-1]

    yield make
    for each in made:
        each.close()
