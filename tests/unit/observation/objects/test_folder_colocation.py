"""ColocationConfiguration objects of a folder: they speak for their pods, as in a cluster."""

from pathlib import Path

import pytest

from slackwater.model.workload import MemoryRatios
from slackwater.observation.objects.folder import Folder
from tests.unit.observation.objects.test_folder import POD, read, rewrite

COLOCATION = """
apiVersion: config.volcano.sh/v1alpha1
kind: ColocationConfiguration
metadata: {name: first, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  selector: {matchLabels: {app: web}}
  memoryQos: {highRatio: 80, lowRatio: 20}
"""
LABELLED_POD = POD.replace("uid: ", "labels: {app: web}, uid: ")
RATIOS = "volcano.sh/colocation-config"


def ratios(*documents: str, folder: Path) -> MemoryRatios | None:
    """Those that a configuration gives to the only pod."""
    (folder / "all.yaml").write_text("\n---\n".join(documents))
    found = read(Folder(str(folder)))
    assert found.problems == ()
    return found.pods[0].memory_ratios


NEWER = COLOCATION.replace("first", "second").replace("2026-01-01", "2026-02-01")


@pytest.mark.parametrize(
    ("documents", "high"),
    [
        ((LABELLED_POD, COLOCATION), 80),
        ((COLOCATION, LABELLED_POD), 80),
        ((LABELLED_POD, COLOCATION, NEWER.replace("80", "70")), 70),
        ((LABELLED_POD, NEWER.replace("80", "70"), COLOCATION), 70),
        ((POD, COLOCATION), None),
        ((LABELLED_POD, COLOCATION.replace("namespace: shop", "namespace: other")), None),
        ((LABELLED_POD, COLOCATION.replace("{matchLabels: {app: web}}", "{}")), 80),
        ((LABELLED_POD, COLOCATION.replace("  selector: {matchLabels: {app: web}}\n", "")), None),
    ],
)
def test_a_colocation_configuration_speaks_for_its_pods(
    tmp_path: Path, documents: tuple[str, ...], high: int | None
) -> None:
    found = ratios(*documents, folder=tmp_path)
    assert (None if found is None else found.high) == high


def test_a_configuration_wins_over_a_stale_annotation(tmp_path: Path) -> None:
    stale = LABELLED_POD.replace("uid: ", f"annotations: {{{RATIOS}: '{{}}'}}, uid: ")
    assert ratios(stale, COLOCATION, folder=tmp_path) == MemoryRatios(80, 20, 0)


def test_without_a_configuration_the_annotation_stays(tmp_path: Path) -> None:
    stated = POD.replace("uid: ", f"annotations: {{{RATIOS}: '{{}}'}}, uid: ")
    assert ratios(stated, COLOCATION, folder=tmp_path) is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("highRatio: 80", "highRatio: 101", "highRatio is 101, but must be a whole number"),
        ("highRatio: 80", "highRatio: many", "highRatio"),
        ("v1alpha1", "v9", "apiVersion is 'config.volcano.sh/v9'"),
    ],
)
def test_a_bad_configuration_is_named_and_the_last_good_stays(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    (tmp_path / "pod.yaml").write_text(LABELLED_POD)
    file = tmp_path / "colocation.yaml"
    file.write_text(COLOCATION)
    folder = Folder(str(tmp_path))
    read(folder)
    rewrite(file, COLOCATION.replace(old, new))
    found = read(folder)
    [problem] = found.problems
    assert words in problem.sentence()
    assert found.pods[0].memory_ratios is not None


def test_what_has_no_effect_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(COLOCATION.replace("lowRatio", "lowratio"))
    found = read(Folder(str(tmp_path)))
    assert any("lowratio is not known and has no effect" in each for each in found.warnings)
    assert found.problems == ()


def test_a_configuration_that_goes_takes_its_annotation_along(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(LABELLED_POD)
    (tmp_path / "colocation.yaml").write_text(COLOCATION)
    folder = Folder(str(tmp_path))
    assert read(folder).pods[0].memory_ratios is not None
    (tmp_path / "colocation.yaml").unlink()
    assert read(folder).pods[0].memory_ratios is None
