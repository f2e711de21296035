"""examples/node on real cgroups, as a user would try it."""

import json
from pathlib import Path

import pytest

from slackwater.model.cgroup import CgroupVersion
from tests.kernel import launching
from tests.kernel.bed import Bed
from tests.kernel.hand import knob_files

EXAMPLES = Path(__file__).parents[2] / "examples/node"
UID = "11111111-2222-4333-8444-00000000000{}"


def test_a_dry_run_says_what_would_be_done(
    bed: Bed, tmp_path: Path, version: CgroupVersion
) -> None:
    bed.make(f"{bed.kubepods}/burstable")
    paths = [
        bed.make(f"{bed.kubepods}/besteffort/pod{UID.format(number)}/{number:064x}")
        for number in (1, 2)
    ]
    before = [knob_files(bed, path) for path in paths]
    arguments = ("--standalone", str(EXAMPLES), "--once", "--dry-run", "--listen", "")
    place = ("--state", str(tmp_path), "--kubepods", bed.kubepods)
    process = launching.launch("agent", *arguments, *place)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    told = [json.loads(line) for line in out.splitlines()]
    planned = {
        line["what"].split(" of ")[0]: line for line in told if line.get("result") == "planned"
    }
    assert {"idle", "weight", "quota", "memory-max"} <= planned.keys(), told
    assert planned["idle"]["after"] == "1"
    assert [knob_files(bed, path) for path in paths] == before


@pytest.mark.cgroupfs
def test_with_a_scratch_tree_there_is_something_to_look_at(tmp_path: Path) -> None:
    """As README has it, on a machine without a kubelet: two busy pods that are throttled."""
    process = launching.launch(
        "agent", "--standalone", str(EXAMPLES), "--scratch", "--once", "--listen", "",
        "--state", str(tmp_path),
    )  # fmt: skip
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "with a busy process in batch/encoder and in batch/report" in err
    told = [json.loads(line) for line in out.splitlines()]
    top = told[0]["because"].partition("/")[0]
    applied = [line["what"] for line in told if line.get("result") == "applied"]
    assert f"quota of {top}/kubepods/besteffort" in applied, told
    assert any(each.startswith(f"idle of {top}/kubepods/besteffort/pod") for each in applied), told
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{top}"))
