"""What a build sees of this machine: where to fetch from, and no path of it."""

from pathlib import Path

import pytest

from tools.image.base import ARCHIVE, MACHINE, is_our_suite, mirror, this_machine

OURS = "VERSION_ID=12\nVERSION_CODENAME=bookworm\n"
DEB822 = "Types: deb\nURIs: http://mirror.example.com/debian/\nSuites: bookworm\n"


def etc(folder: Path, release: str = OURS) -> Path:
    (folder / "apt/sources.list.d").mkdir(parents=True)
    (folder / "apt/apt.conf.d").mkdir()
    (folder / "os-release").write_text(release)
    return folder


@pytest.mark.parametrize(
    ("release", "name", "text", "found"),
    [
        (OURS, "sources.list.d/a.sources", DEB822, "http://mirror.example.com/debian"),
        (
            OURS,
            "sources.list",
            "deb http://a.example/debian bookworm main",
            "http://a.example/debian",
        ),
        (
            OURS,
            "sources.list",
            "deb [signed-by=/x] https://a.example/debian/ bookworm main",
            "https://a.example/debian",
        ),
        (OURS, "sources.list", "# deb http://a.example/debian bookworm main", ARCHIVE),
        (OURS, "sources.list", "deb http://a.example/debian-security bookworm main", ARCHIVE),
        (OURS, "sources.list.d/a.sources.off", DEB822, ARCHIVE),
        ("VERSION_CODENAME=noble\n", "sources.list.d/a.sources", DEB822, ARCHIVE),
    ],
)
def test_mirror(tmp_path: Path, release: str, name: str, text: str, found: str) -> None:
    folder = etc(tmp_path, release)
    (folder / "apt" / name).write_text(text)
    assert mirror(folder) == found


def test_a_machine_without_apt_has_debians_own_archive(tmp_path: Path) -> None:
    assert mirror(tmp_path) == ARCHIVE
    assert not is_our_suite(tmp_path)


def test_only_where_to_fetch_from_is_passed(tmp_path: Path) -> None:
    environ = {
        "https_proxy": "http://proxy.example:3128",
        "NO_PROXY": "localhost",
        "PIP_INDEX_URL": "https://index.example/simple",
        "PIP_FIND_LINKS": "/a/path/of/this/machine",
        "UV_CACHE_DIR": "/another",
        "SECRET": "x",
        "HOME": "/root",
        "PIP_TRUSTED_HOST": "",
    }
    with this_machine(environ, etc(tmp_path)) as machine:
        passed = {*machine.environment}
        assert machine.environment["https_proxy"] == "http://proxy.example:3128"
        assert machine.environment["PIP_INDEX_URL"] == "https://index.example/simple"
    assert {"NO_PROXY", "APT_CONFIG"} <= passed
    assert not passed & {"PIP_FIND_LINKS", "UV_CACHE_DIR", "SECRET", "HOME", "PIP_TRUSTED_HOST"}


def test_apts_settings_of_the_same_suite_are_shown_whole(tmp_path: Path) -> None:
    folder = etc(tmp_path)
    (folder / "apt/apt.conf.d/proxy").write_text('Acquire::http::Proxy "http://proxy.example";')
    with this_machine({}, folder) as machine:
        assert machine.environment["APT_CONFIG"] == f"{MACHINE}/apt.conf"
        assert f'Dir::Etc "{MACHINE}/apt";' in (machine.folder / "apt.conf").read_text()
        assert (machine.folder / "apt/apt.conf.d/proxy").exists()


def test_apts_sources_of_another_suite_are_not(tmp_path: Path) -> None:
    folder = etc(tmp_path, "VERSION_CODENAME=trixie\n")
    (folder / "apt/apt.conf.d/proxy").write_text('Acquire::http::Proxy "http://proxy.example";')
    (folder / "apt/sources.list.d/a.sources").write_text(DEB822)
    with this_machine({}, folder) as machine:
        assert "Dir::Etc::parts" in (machine.folder / "apt.conf").read_text()
        assert (machine.folder / "apt.conf.d/proxy").exists()
        assert not (machine.folder / "apt").exists()


def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    with this_machine({}, etc(tmp_path)) as machine:
        folder = machine.folder
        assert folder.is_dir()
    assert not folder.exists()
