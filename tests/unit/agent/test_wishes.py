"""Which policies are on: our own settings, Volcano's configuration, and the node's label."""

from pathlib import Path

import pytest

from slackwater.agent.wishes import Wishes, node_of, wishes_of
from slackwater.observation.folder import Folder, Objects

LABELLED = """
apiVersion: v1
kind: Node
metadata: {name: one, labels: {volcano.sh/oversubscription: "true"}}
status: {allocatable: {cpu: "2"}}
"""
PLAIN = LABELLED.replace('"true"', '"false"')
THROTTLING = "cpuThrottlingConfig: {enable: true, cpuThrottlingThreshold: 70}"
OWN = """
apiVersion: slackwater.io/v1
kind: AgentSettings
spec: {bestEffortShare: {enabled: true, threshold: 55}}
"""


def objects(folder: Path, *documents: str) -> Objects:
    for number, document in enumerate(documents):
        (folder / f"{number}.yaml").write_text(document)
    found = Folder(str(folder)).read()
    assert isinstance(found, Objects)
    return found


def wished(found: Objects, before: Wishes) -> Wishes:
    return wishes_of(found, node_of(found, "", ""), before)


@pytest.mark.parametrize(
    ("name", "host", "chosen"),
    [("", "", "two"), ("one", "two", "one"), ("", "one", "one"), ("three", "one", None)],
)
def test_whose_node_counts(tmp_path: Path, name: str, host: str, chosen: str | None) -> None:
    found = objects(tmp_path, PLAIN, PLAIN.replace("name: one", "name: two"))
    node = node_of(found, name, host)
    assert (node.name if node else None) == chosen


@pytest.mark.parametrize(
    ("documents", "threshold"),
    [
        ((), None),
        ((THROTTLING,), None),  # Volcano's dialect needs the label
        ((THROTTLING, PLAIN), None),
        ((THROTTLING, LABELLED), 70),
        ((THROTTLING.replace("true", "false"), LABELLED), None),
        ((OWN,), 55),  # ours does not
        ((OWN, THROTTLING, LABELLED), 55),
        ((OWN.replace("true", "false"), THROTTLING, LABELLED), 70),
    ],
)
def test_rows(tmp_path: Path, documents: tuple[str, ...], threshold: int | None) -> None:
    wishes = wished(objects(tmp_path, *documents), Wishes())
    found = wishes.policies.get("best_effort_share")
    assert (found.threshold if found else None) == threshold
    assert wishes.problems == ()


def test_defaults_of_what_volcano_does_not_say(tmp_path: Path) -> None:
    bare = "cpuThrottlingConfig: {enable: true, cpuJitterLimitPercent: 5}"
    wishes = wished(objects(tmp_path, bare, LABELLED), Wishes())
    found = wishes.policies["best_effort_share"]
    assert (found.threshold, found.jitter, found.recover) == (80, 5, 10)


def test_wrong_configuration_is_told_and_what_was_set_stays(tmp_path: Path) -> None:
    good = wished(objects(tmp_path, THROTTLING, LABELLED), Wishes())
    wrong = THROTTLING.replace("70", "700")
    found = wished(objects(tmp_path, wrong, LABELLED), good)
    assert found.policies == good.policies
    assert len(found.problems) == 1
    assert "cpuThrottlingThreshold is 700" in found.problems[0]
    assert found.problems[0].endswith("; what was set before stays")
