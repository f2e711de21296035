"""A root folder as a docker-archive: one layer, its configuration, a manifest.

Owns the format, which `ctr images import` and `docker load` read. Owners, modes and links are the
root's own; so are times, up to one that is the same in each build.
"""

import hashlib
import io
import json
import os
import platform
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.image.dockerfile import Recipe

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
#: No time of building: the same steps are the same image.
_CREATED = "1970-01-01T00:00:00Z"
_BLOCK = 1 << 20
#: No file is younger, or two builds would differ: 2020-02-02, which hatchling puts into wheels.
EPOCH = 1_580_601_600


def write_archive(root: Path, recipe: Recipe, tag: str, target: Path) -> None:
    """The layer is written first, beside the archive, as a manifest must know its digest."""
    layer = target.with_suffix(".layer")
    try:
        write_layer(root, layer)
        digest = _file_digest(layer)
        config = json.dumps(configuration(recipe, digest)).encode()
        name = f"{hashlib.sha256(config).hexdigest()}.json"
        manifest = [{"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]}]
        with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
            _add(archive, "manifest.json", json.dumps(manifest).encode())
            _add(archive, name, config)
            archive.add(layer, "layer.tar", filter=_anonymous)
    finally:
        layer.unlink(missing_ok=True)


def configuration(recipe: Recipe, layer_digest: str) -> dict[str, object]:
    """What containers of the image start with (image-spec, config.md)."""
    said = {
        "Env": [f"{key}={value}" for key, value in recipe.environment.items()],
        "Entrypoint": [*recipe.entry],
        "Cmd": [*recipe.command],
        "WorkingDir": recipe.folder,
        "User": recipe.user,
        "Labels": {**recipe.labels},
    }
    machine = platform.machine()
    return {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "created": _CREATED,
        "config": {key: value for key, value in said.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created": _CREATED, "created_by": "tools.image"}],
    }


def write_layer(root: Path, target: Path) -> None:
    """Every file of the root but sockets and devices, which an image has no use for."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as layer:
        for path in _sorted_below(root):
            mode = os.lstat(path).st_mode
            if stat.S_ISSOCK(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                continue
            layer.add(path, os.path.relpath(path, root), recursive=False, filter=_without_names)


@contextmanager
def open_layer(archive_path: Path) -> Iterator[tarfile.TarFile]:
    """The files of an archive's image."""
    with tarfile.open(archive_path) as archive:
        packed = archive.extractfile("layer.tar")
        if packed is None:
            raise tarfile.ReadError(f"{archive_path} has no layer")
        with tarfile.open(fileobj=packed) as layer:
            yield layer


def extract_layer(archive_path: Path, target: Path) -> None:
    """The root again, as a runtime would unpack it."""
    with open_layer(archive_path) as layer:
        layer.extractall(target, numeric_owner=True, filter="fully_trusted")  # noqa: S202  it is ours


def read_configuration(archive_path: Path) -> dict[str, object]:
    with tarfile.open(archive_path) as archive:
        [image] = json.loads(_read(archive, "manifest.json"))
        found = json.loads(_read(archive, image["Config"]))
    return {"tags": image["RepoTags"], **found}


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    return file.read() if file else b""


def _sorted_below(root: Path) -> list[str]:
    found = [
        os.path.join(place, name)
        for place, folders, files in os.walk(root)
        for name in (*folders, *files)
    ]
    return sorted(found)


def _without_names(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Names of this machine's users say nothing in the image."""
    member.uname = member.gname = ""
    member.mtime = min(int(member.mtime), EPOCH)
    return member


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.mtime = 0
    return _without_names(member)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644
    archive.addfile(member, io.BytesIO(data))


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
