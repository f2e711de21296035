"""Bills of materials: every locked package with the hash of each of its files, and the same bytes
from the same source. The schema itself is asked in tests/cluster/test_image.py."""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from slackwater import __version__
from tools.children import Children
from tools.provision import ROOT, cache_folder, provide_uv
from tools.release.__main__ import ReleaseError, main, make_release, write_sums
from tools.release.sbom import encode, locked_packages, read_status, with_debian

EXTRAS = ("demo", "kafka", "forecast", "webhook", "remote")
STAMP = "2026-01-02T03:04:05+00:00"
STATUS = """\
Package: libstdc++6
Status: install ok installed
Architecture: amd64
Version: 1:12.2.0-14+deb12u1
Description: a library
 of several rows

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""


@pytest.fixture(scope="module")
def uv() -> Path:
    return provide_uv(Children(ROOT), cache_folder(os.environ))


def lock() -> dict[str, dict[str, Any]]:
    found = tomllib.loads((ROOT / "uv.lock").read_text())
    return {each["name"]: each for each in found["package"]}


def wanted(extras: tuple[str, ...]) -> set[str]:
    """By the lock alone: what our package needs, and what that needs."""
    packages, found = lock(), {"slackwater"}
    ours = packages["slackwater"]
    waiting = [each for extra in extras for each in ours["optional-dependencies"][extra]]
    waiting += ours["dependencies"]
    while waiting:
        name = waiting.pop()["name"]
        if name not in found:
            found.add(name)
            waiting += packages[name].get("dependencies", ())
    return found - {"slackwater"}


@pytest.mark.parametrize("extras", [EXTRAS, ("kafka",), ()])
def test_each_locked_package_is_there_with_each_hash(uv: Path, extras: tuple[str, ...]) -> None:
    bill = locked_packages(Children(ROOT), uv, extras, STAMP)
    shown = {each["name"]: each for each in bill["components"]}
    assert shown.keys() == wanted(extras)
    for name, component in shown.items():
        package = lock()[name]
        assert component["version"] == package["version"]
        files = [*package["wheels"], *([package["sdist"]] if "sdist" in package else [])]
        hashes = {
            hashed["content"]
            for reference in component["externalReferences"]
            for hashed in reference["hashes"]
        }
        assert hashes == {each["hash"].removeprefix("sha256:") for each in files}
    assert bill["metadata"]["component"]["version"] == __version__


def test_the_same_source_gives_the_same_bytes(uv: Path) -> None:
    one, other = (encode(locked_packages(Children(ROOT), uv, EXTRAS, STAMP)) for _ in range(2))
    assert one == other
    assert encode(locked_packages(Children(ROOT), uv, ("kafka",), STAMP)) != one


def test_debians_packages_are_named_as_purls_do() -> None:
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": []}
    made = with_debian(bill, list(read_status(STATUS)))
    [component] = made["components"]
    purl = "pkg:deb/debian/libstdc%2B%2B6@1%3A12.2.0-14%2Bdeb12u1?arch=amd64"
    assert (component["name"], component["purl"]) == ("libstdc++6", purl)


def test_without_a_base_that_somebody_looked_at_there_is_no_release(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as wrong:
        main([])
    assert wrong.value.code == 2
    assert "--base is missing, but must be the digest of the base image" in capsys.readouterr().err


def test_nothing_is_mixed_with_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "old.whl").touch()
    with pytest.raises(ReleaseError, match="is not empty"):
        make_release(Children(ROOT), tmp_path, "")


def test_sums_are_as_sha256sum_reads_them(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    write_sums(tmp_path / "SHA256SUMS", [tmp_path / "a"])
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert (tmp_path / "SHA256SUMS").read_text() == f"{empty}  a\n"
