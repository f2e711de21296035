"""Container images for the tests' pods, made of one static busybox and nothing else.

Owns the docker-archive format, which `ctr images import` reads: a layer, its config, a manifest.
Fetches nothing; equal inputs give equal bytes.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence

#: What a shell in a pod calls: links to busybox.
_APPLETS = ("sh", "sleep", "cat", "echo", "true", "date")


def busybox_image(name: str, busybox: bytes, command: Sequence[str]) -> bytes:
    """An archive of one image with that name, whose containers run the command."""
    layer = _tar({"bin/busybox": busybox}, {f"bin/{applet}": "busybox" for applet in _APPLETS})
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": list(command), "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}"]},
        }
    ).encode()
    config_name = f"{_digest(config)}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {
        config_name: config,
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    return _tar(files, {})


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _tar(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    """Times, owners and modes are fixed, so that the same files are the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755
            archive.addfile(member, io.BytesIO(data))
        for name, target in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return buffer.getvalue()
