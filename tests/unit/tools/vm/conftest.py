"""Hosts of the tests' own: with a static busybox, with a kernel, with a stand-in for QEMU."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.tools.vm.stand_ins import elf_program, make_kernel, stand_in
from tools.vm.kernel import Kernel


@pytest.fixture
def busybox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "busybox"
    program.write_bytes(elf_program(1))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return program


@pytest.fixture
def small_kernel(tmp_path: Path) -> Kernel:
    kernel = Kernel(make_kernel(tmp_path, "linux-image-6.12.1-amd64_1"))
    paths = [f"kernel/{name}.ko" for name in ("9pnet_virtio", "9p", "overlay")]
    for path in paths:
        file = kernel.modules / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(path.encode())
    (kernel.modules / "modules.dep").write_text("".join(f"{path}:\n" for path in paths))
    (kernel.modules / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    return kernel


QEMU = """\
for word; do case "$word" in local,id=io,path=*) io=${word#*path=}; io=${io%%,*};; esac; done
cd "$io"
"""


@pytest.fixture
def emulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a script in QEMU's place; it starts in the folder that it shares with the host."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return lambda script: stand_in(tmp_path, "qemu-system-x86_64", QEMU + script)
