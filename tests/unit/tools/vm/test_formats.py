"""The formats that tools.vm reads and writes: cpio, modules.dep, bzImage."""

import lzma
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tools.vm.stand_ins import KERNEL, bz_image, read_newc, stand_in, with_size
from tools.vm import VmError, kernel
from tools.vm.initramfs import archive, directory, executable, regular
from tools.vm.kernel import insertion_order, module_bytes, module_name, parse_dependencies

names = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=40)


@given(st.lists(st.tuples(names, st.binary(max_size=50))))
def test_an_archive_reads_back_as_it_was_written(files: list[tuple[str, bytes]]) -> None:
    members = read_newc(archive(regular(name, data) for name, data in files))
    assert [(name, data) for name, _, data in members] == [*files, ("TRAILER!!!", b"")]


def test_members_have_their_type_and_permissions() -> None:
    entries = [
        directory("bin"),
        executable("bin/x", b"1"),
        regular("y", b"22"),
    ]
    modes = [stat.filemode(mode) for _, mode, _ in read_newc(archive(entries))]
    assert modes == ["drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "?---------"]


def test_equal_entries_give_equal_archives() -> None:
    assert archive([regular("a", b"x")]) == archive([regular("a", b"x")])


MODULES_DEP = """\
kernel/fs/overlayfs/overlay.ko.xz:
kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz
kernel/net/9p/9pnet.ko.xz: kernel/fs/netfs/netfs.ko.xz
kernel/fs/netfs/netfs.ko.xz:
kernel/drivers/char/hw_random/virtio-rng.ko.xz:
"""


def test_a_module_comes_after_all_that_it_needs() -> None:
    order = insertion_order(["9p", "overlay"], parse_dependencies(MODULES_DEP), ())
    assert [module_name(path) for path in order] == ["netfs", "9pnet", "9p", "overlay"]


def test_a_built_in_module_is_not_inserted() -> None:
    order = insertion_order(
        ["virtio_pci", "overlay"], parse_dependencies(MODULES_DEP), {"virtio_pci"}
    )
    assert order == ("kernel/fs/overlayfs/overlay.ko.xz",)


def test_module_names_are_the_kernels() -> None:
    order = insertion_order(["virtio_rng"], parse_dependencies(MODULES_DEP), ())
    assert order == ("kernel/drivers/char/hw_random/virtio-rng.ko.xz",)


def test_a_missing_module_is_named() -> None:
    with pytest.raises(VmError, match="no module zfs"):
        insertion_order(["zfs"], parse_dependencies(MODULES_DEP), ())


def test_a_circle_of_modules_ends_in_words() -> None:
    with pytest.raises(VmError, match="needs itself"):
        insertion_order(["a"], {"a.ko": ("b.ko",), "b.ko": ("a.ko",)}, ())


@given(st.dictionaries(st.integers(0, 30), st.lists(st.integers(0, 30))))
def test_order_holds_for_any_graph_without_circles(graph: dict[int, list[int]]) -> None:
    # Edges only to smaller numbers: no circles.
    table = {f"m{n}.ko": tuple(f"m{k}.ko" for k in needs if k < n) for n, needs in graph.items()}
    order = insertion_order([f"m{n}" for n in graph], table, ())
    assert len(set(order)) == len(order)
    assert {f"m{n}.ko" for n in graph} <= set(order)
    for path, needs in table.items():
        assert all(order.index(needed) < order.index(path) for needed in needs)


def test_modules_are_unpacked_where_they_are_packed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.ko", tmp_path / "b.ko.xz"
    plain.write_bytes(b"code")
    packed.write_bytes(lzma.compress(b"code"))
    assert module_bytes(plain) == module_bytes(packed) == b"code"


@pytest.mark.parametrize("sectors", [0, 4, 27])
def test_the_payload_is_where_the_header_says(sectors: int) -> None:
    assert kernel.payload(bz_image(b"payload", sectors=sectors)) == b"payload"


@pytest.mark.parametrize(
    "image",
    [
        b"",
        b"MZ" + bytes(2000),
        bz_image(b"payload", version=0x207),
        bz_image(b"payload")[:-20],
        KERNEL,
    ],
    ids=["empty", "no signature", "older protocol", "cut short", "already ELF"],
)
def test_what_is_no_whole_image_has_no_payload(image: bytes) -> None:
    assert kernel.payload(image) is None
    assert kernel.elf_kernel(image) is None


def test_an_xz_kernel_is_unpacked_despite_its_size_trailer() -> None:
    packed = with_size(lzma.compress(KERNEL, check=lzma.CHECK_CRC32))
    assert kernel.elf_kernel(bz_image(packed)) == KERNEL


@pytest.mark.parametrize("payload", [b"\x1f\x8bgzip", with_size(lzma.compress(b"no kernel"))])
def test_a_payload_that_is_not_understood_leaves_the_image_to_boot(payload: bytes) -> None:
    assert kernel.elf_kernel(bz_image(payload)) is None


def test_a_zstd_kernel_is_unpacked_by_the_zstd_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The stand-in drops the four bytes of zstd's signature and "unpacks" the rest as it is.
    stand_in(tmp_path, "zstd", "tail -c +5")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert kernel.elf_kernel(bz_image(with_size(b"\x28\xb5\x2f\xfd" + KERNEL))) == KERNEL


def test_without_zstd_the_image_itself_boots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert kernel.elf_kernel(bz_image(with_size(b"\x28\xb5\x2f\xfd" + KERNEL))) is None
