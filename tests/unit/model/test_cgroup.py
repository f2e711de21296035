"""Where controllers are mounted, and what a cgroup is called."""

from slackwater.model.cgroup import (
    CgroupController,
    CgroupMounts,
    CgroupRef,
    CgroupVersion,
    Level,
    Mount,
)
from slackwater.model.gap import Gap

V1 = Mount(CgroupVersion.V1, "/sys/fs/cgroup/cpu")
V2 = Mount(CgroupVersion.V2, "/sys/fs/cgroup/unified")


def test_a_hybrid_host_mixes_versions_by_controller() -> None:
    mounts = CgroupMounts({CgroupController.CPU: V1, CgroupController.MEMORY: V2})
    assert mounts.directory(CgroupController.CPU, "kubepods") == "/sys/fs/cgroup/cpu/kubepods"
    assert (
        mounts.directory(CgroupController.MEMORY, "kubepods") == "/sys/fs/cgroup/unified/kubepods"
    )
    assert mounts.identity() == V1


def test_the_root_has_no_trailing_slash() -> None:
    assert (
        CgroupMounts({CgroupController.CPU: V1}).directory(CgroupController.CPU, "") == V1.directory
    )


def test_a_controller_that_is_nowhere_is_a_gap() -> None:
    mounts = CgroupMounts({})
    assert mounts.directory(CgroupController.CPUSET, "x") == Gap(
        "the cpuset controller is mounted nowhere"
    )
    assert isinstance(mounts.identity(), Gap)


def test_depth_and_name() -> None:
    ref = CgroupRef("kubepods/besteffort/podx", 7, Level.POD)
    assert (ref.depth(), ref.name()) == (3, "podx")
    assert CgroupRef("", 1, Level.NODE).depth() == 0
