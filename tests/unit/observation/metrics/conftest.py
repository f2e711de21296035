"""A node of plain files, once for each cgroup version."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupVersion
from tests.unit.observation.metrics.group_node import GroupNode


@pytest.fixture(params=CgroupVersion)
def version(request: pytest.FixtureRequest) -> CgroupVersion:
    found: CgroupVersion = request.param
    return found


@pytest.fixture
def node(tmp_path: Path, version: CgroupVersion) -> Iterator[GroupNode]:
    made = GroupNode(tmp_path, version)
    yield made
    made.collector.close()
