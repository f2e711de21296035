"""examples/node on real cgroups, as a user would try it."""

import json
from pathlib import Path

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
