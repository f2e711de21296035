"""How long helm takes to put everything back on a real node: one test of tests/cluster, run now.

Owns the way from that test to its figure. Says why where this machine cannot run it.
"""

import re
from pathlib import Path

from slackwater.model.gap import Gap
from tools.children import Children
from tools.host_kernel import look_at_host
from tools.provision import ROOT
from tools.run_tests import last_sentence
from tools.stages import NODE, PYTHON, obstacle

#: It takes some minutes: a control plane, a kubelet, the image.
_TEST = "tests/cluster/test_chart_on_node.py::test_a_plain_uninstall_leaves_nothing"
_SECONDS = re.compile(r'name="seconds" value="([0-9.]+)"')


class UninstallTestError(Exception):
    """The test failed: str() is what it said."""


def uninstall_seconds(folder: Path) -> float | Gap:
    """From helm's call to its end, after which the test finds no value of ours."""
    children = Children(ROOT)
    if why := obstacle(NODE, look_at_host()):
        return Gap(why)
    for need in NODE.needs:
        code, said = children.run_quietly(need.check, {})
        if code != 0:
            return Gap(last_sentence(said))
    report = folder / "junit.xml"
    command = (PYTHON, "-m", "pytest", "-q", _TEST, "--timeout", "1800", f"--junitxml={report}")
    code, said = children.run_quietly(command, {})
    found = _SECONDS.search(report.read_text()) if code == 0 else None
    if found is None:
        raise UninstallTestError(said)
    return float(found[1])
