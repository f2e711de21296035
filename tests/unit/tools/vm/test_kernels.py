"""How tools.vm finds, fetches, builds and keeps kernels and initramfs."""

import lzma
import os
from pathlib import Path

import pytest

from tests.unit.tools.vm.stand_ins import (
    KERNEL,
    bz_image,
    make_kernel,
    no_words,
    read_newc,
    stand_in,
    with_size,
)
from tools.cache import publish, scratch_folder, sole_builder
from tools.vm import VmError, initramfs
from tools.vm.kernel import (
    Kernel,
    Series,
    cached_kernel,
    concrete_package,
    prepare_kernel,
)

BOOKWORM = "linux-image-amd64\n  Depends: linux-image-6.1.0-54-amd64\n"
BOOKWORM_6_12 = "linux-image-6.12-amd64\n  Depends: linux-image-6.12.115+deb12-amd64\n"
TRIXIE = "linux-image-amd64\n  Depends: linux-image-6.12.57+deb13-amd64\n"


@pytest.mark.parametrize(
    ("depends", "series", "package"),
    [
        (BOOKWORM, Series.V6_1, "linux-image-6.1.0-54-amd64"),
        (BOOKWORM_6_12, Series.V6_12, "linux-image-6.12.115+deb12-amd64"),
        (TRIXIE, Series.V6_12, "linux-image-6.12.57+deb13-amd64"),
        (TRIXIE, Series.V6_1, None),
        (BOOKWORM, Series.V6_12, None),
        (" |Depends: linux-image-6.1.0-9-amd64\n", Series.V6_1, "linux-image-6.1.0-9-amd64"),
        ("  Depends: linux-image-6.1.0-9-cloud-arm64\n", Series.V6_1, None),
        ("  Suggests: linux-image-6.1.0-9-amd64\n", Series.V6_1, None),
        ("N: Unable to locate package linux-image-amd64\n", Series.V6_1, None),
        ("", Series.V6_1, None),
    ],
)
def test_the_concrete_package_comes_from_aptcache(
    depends: str, series: Series, package: str | None
) -> None:
    assert concrete_package(depends, series) == package


def test_a_cached_kernel_is_used_without_looking_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    older = make_kernel(tmp_path, "linux-image-6.12.1+deb12-amd64_6.12.1-1")
    newer = make_kernel(tmp_path, "linux-image-6.12.2+deb12-amd64_6.12.2-1")
    os.utime(older, ns=(1, 1))
    kernel = prepare_kernel(Series.V6_12, tmp_path, no_words)
    assert kernel == Kernel(newer)
    assert kernel.release == "6.12.1-test"
    assert cached_kernel(Series.V6_1, tmp_path) is None


@pytest.mark.parametrize("image", ["vmlinux.elf", "vmlinuz"])
def test_the_kernel_boots_what_could_be_unpacked(tmp_path: Path, image: str) -> None:
    assert Kernel(make_kernel(tmp_path, "k", image=image)).image.name == image


APT_GET = """\
case "$*" in
update*) touch {folder}/updated;;
download*) for last; do :; done; [ -e {folder}/updated ] && cp {deb} "$last"_1-1_amd64.deb;;
esac"""
APT_CACHE = """\
case "$*" in
*6.12-amd64) echo '  Depends: linux-image-6.12.9+deb12-amd64';;
show*) echo 'Size: 107000000';;
esac"""


@pytest.fixture
def archive_of_debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for apt, dpkg-deb and depmod; the lists are stale until `apt-get update`."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "image").write_bytes(bz_image(with_size(lzma.compress(KERNEL))))
    stand_in(folder, "apt-get", APT_GET.format(folder=folder, deb=folder / "image"))
    stand_in(folder, "apt-cache", APT_CACHE)
    unpack = 'mkdir -p "$3/boot" "$3/lib/modules/6.12.9-x" && cp "$2" "$3/boot/vmlinuz-6.12.9-x"'
    stand_in(folder, "dpkg-deb", unpack)
    stand_in(folder, "depmod", 'echo "kernel/a.ko:" >"$2/lib/modules/$3/modules.dep"')
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_a_kernel_is_fetched_unpacked_and_published(
    tmp_path: Path, archive_of_debian: Path
) -> None:
    heard: list[str] = []
    cache = tmp_path / "cache"
    kernel = prepare_kernel(Series.V6_12, cache, heard.append)
    assert kernel.folder.name == "linux-image-6.12.9+deb12-amd64_1-1"
    assert kernel.image.read_bytes() == KERNEL
    assert (kernel.modules / "modules.dep").exists()
    assert sorted(path.name for path in cache.iterdir()) == ["kernels", "lock"]
    assert "vm: fetching linux-image-6.12.9+deb12-amd64 (107 MB)" in heard
    assert "vm: refreshing the package lists (apt-get update)" in heard


def test_a_series_that_apt_does_not_know_is_one_sentence(
    tmp_path: Path, archive_of_debian: Path
) -> None:
    with pytest.raises(VmError, match=r"no Linux 6\.1 kernel"):
        prepare_kernel(Series.V6_1, tmp_path / "cache", no_words)


def test_a_download_that_fails_leaves_nothing_in_the_cache(
    tmp_path: Path, archive_of_debian: Path
) -> None:
    stand_in(archive_of_debian, "apt-get", "exit 100")
    cache = tmp_path / "cache"
    with pytest.raises(VmError, match="could not download"):
        prepare_kernel(Series.V6_12, cache, no_words)
    assert [path.name for path in cache.iterdir()] == ["lock"]


def test_the_initramfs_holds_what_the_guest_uses(
    tmp_path: Path, busybox: Path, small_kernel: Kernel
) -> None:
    built = initramfs.prepare_initramfs(small_kernel, tmp_path / "cache", no_words)
    members = {name: data for name, _, data in read_newc(built.read_bytes())}
    assert members["bin/busybox"] == busybox.read_bytes()
    assert members["modules/01.ko"] == b"kernel/9p.ko"
    guest = {f"guest/{file.name}" for file in initramfs.GUEST_FILES.iterdir()} - {"guest/init"}
    assert {"init", *guest} <= set(members)


def test_a_folder_of_a_killed_builder_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".unfinished-old").mkdir()
    with sole_builder(tmp_path), scratch_folder(tmp_path) as scratch:
        assert [path.name for path in tmp_path.glob(".unfinished-*")] == [scratch.name]
        (scratch / "part").write_text("whole")
        publish(scratch / "part", tmp_path / "parts" / "part")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "parts"]
