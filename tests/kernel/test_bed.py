"""The bed itself: a limit written by hand really limits, and nothing is left behind."""

import os
import time

from slackwater.model.cgroup import CgroupVersion
from tests.kernel.bed import Bed
from tests.kernel.hand import despite_neighbours


def test_a_quota_written_by_hand_limits(bed: Bed, version: CgroupVersion) -> None:
    bed.make(bed.kubepods)
    if version is CgroupVersion.V1:
        bed.write(bed.kubepods, "cpu.cfs_quota_us", "30000")
    else:
        bed.write(bed.kubepods, "cpu.max", "30000 100000")
    bed.go_first()
    bed.burn(bed.kubepods, processes=2)
    cores_since = bed.meter([bed.kubepods])

    def judge() -> None:
        time.sleep(3.0)
        assert abs(cores_since()[0] - 0.3) <= 0.3 * 0.05

    despite_neighbours(judge)


def test_closing_removes_everything(version: CgroupVersion) -> None:
    bed = Bed(version, "closing")
    bed.make(f"{bed.kubepods}/besteffort")
    bed.burn(f"{bed.kubepods}/besteffort")
    bed.close()
    assert not os.path.exists(bed.directory(bed.top))
