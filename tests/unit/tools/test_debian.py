"""Debian packages: what is missing, how apt-get is called, and the guard against services."""

import os
from pathlib import Path

import pytest

from tools import debian
from tools.children import Children

APT_GET = """#!/bin/sh
for word in "$@"; do case "$word" in
  --simulate) action=simulate ;;
  install) action=${action:-install} ;;
  update) action=update ;;
esac; done
echo "$action" >> "$LOG"
cp "$POLICY" "$LOG.policy-during-$action" 2>/dev/null
[ "$action" = simulate ] && exit "$SIMULATE_EXIT"
[ "$action" = update ] && { touch "$LOG.updated"; exit 0; }
[ -n "$NEEDS_UPDATE" ] && [ ! -e "$LOG.updated" ] && { echo "E: 404 Not Found"; exit 100; }
[ -n "$BROKEN" ] && { echo "E: broken packages"; exit 100; }
exit 0
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for apt-get that notes its calls; the real one changes the machine."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/apt-get").write_text(APT_GET)
    (tmp_path / "bin/apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("POLICY", str(tmp_path / "policy-rc.d"))
    monkeypatch.setenv("SIMULATE_EXIT", "0")
    for name in ("NEEDS_UPDATE", "BROKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def installs(apt: Path) -> str:
    return debian.install(Children(apt), ("strace",), apt / "policy-rc.d")


def calls(apt: Path) -> list[str]:
    return (apt / "log").read_text().split()


def test_known_packages_need_no_update(apt: Path) -> None:
    assert installs(apt) == ""
    assert calls(apt) == ["simulate", "install"]


def test_unknown_packages_need_an_update_first(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMULATE_EXIT", "100")
    assert installs(apt) == ""
    assert calls(apt) == ["simulate", "update", "install"]


def test_old_lists_are_renewed_after_a_failure(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEEDS_UPDATE", "1")
    assert installs(apt) == ""
    assert calls(apt) == ["simulate", "install", "update", "install"]


def test_a_failure_comes_with_the_words_of_apt(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", "1")
    assert installs(apt) == "E: broken packages"
    assert not (apt / "policy-rc.d").exists()


def test_services_are_forbidden_while_packages_are_installed(apt: Path) -> None:
    installs(apt)
    assert (apt / "log.policy-during-install").read_text() == debian.GUARD
    assert not (apt / "policy-rc.d").exists()


def test_a_guard_that_cannot_stand_is_a_problem_not_a_traceback(apt: Path) -> None:
    problem = debian.install(Children(apt), ("strace",), apt / "missing/policy-rc.d")
    assert "No such file or directory" in problem
    assert calls(apt) == ["simulate"]


def test_an_administrators_policy_comes_back_unchanged(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 104\n")
    policy.chmod(0o750)
    with debian.services_stay_stopped(policy):
        assert policy.read_text() == debian.GUARD
        assert policy.stat().st_mode & 0o777 == 0o755
    assert policy.read_text() == "#!/bin/sh\nexit 104\n"
    assert policy.stat().st_mode & 0o777 == 0o750
    assert [entry.name for entry in tmp_path.iterdir()] == ["policy-rc.d"]


def test_the_policy_comes_back_after_an_interrupt(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.symlink_to("elsewhere")
    with pytest.raises(KeyboardInterrupt), debian.services_stay_stopped(policy):
        raise KeyboardInterrupt
    assert policy.readlink() == Path("elsewhere")


@pytest.mark.parametrize("before", [None, "#!/bin/sh\nexit 104\n"])
def test_what_a_killed_run_left_is_mended(tmp_path: Path, before: str | None) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text(debian.GUARD)
    if before is not None:
        (tmp_path / "policy-rc.d.slackwater-saved").write_text(before)
    with debian.services_stay_stopped(policy):
        assert policy.read_text() == debian.GUARD
    assert (policy.read_text() if policy.exists() else None) == before
    assert not (tmp_path / "policy-rc.d.slackwater-saved").exists()


def test_only_what_is_fully_there_counts_as_installed() -> None:
    said = (
        "kmod installed\ncpio not-installed\nqemu-system-x86 config-files\nzstd half-configured\n"
        "dpkg-query: no packages found matching nosuch\nstrace installed\n"
    )
    assert debian.names_installed(said) == ("kmod", "strace")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("dlstatus:3:41.2000:Retrieving file 3 of 7 (2s remaining)\n", "downloading 25 %"),
        ("pmstatus:qemu-system-x86:99.9000:Unpacking qemu-system-x86 (amd64)\n", "installing 75 %"),
        ("pmstatus:libc6:amd64:50.0000:Configuring libc6\n", "installing 50 %"),
        ("pmstatus:dpkg-exec:100.0000:Running dpkg\n", "installing 100 %"),
        ("pmerror:/var/cache/a.deb:10.0:no space\n", ""),
        ("dlstatus:3\n", ""),
        ("pmstatus:strace:soon:Unpacking\n", ""),
        ("\n", ""),
    ],
)
def test_progress(row: str, expected: str) -> None:
    assert debian.progress(row) == expected
