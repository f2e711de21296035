"""Images of one program, as a container runtime imports them."""

import hashlib
import io
import json
import tarfile

from tools.kubernetes.image import busybox_image

NAME = "localhost/pause:1"


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive}


def content(data: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        file = archive.extractfile(name)
        assert file is not None
        return file.read()


def test_the_manifest_leads_to_config_and_layer() -> None:
    image = busybox_image(NAME, b"busybox", ("sh", "-c", "true"))
    [manifest] = json.loads(content(image, "manifest.json"))
    assert manifest["RepoTags"] == [NAME]
    config = content(image, manifest["Config"])
    assert manifest["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
    [layer] = manifest["Layers"]
    digest = hashlib.sha256(content(image, layer)).hexdigest()
    assert json.loads(config)["rootfs"]["diff_ids"] == [f"sha256:{digest}"]
    assert json.loads(config)["config"]["Cmd"] == ["sh", "-c", "true"]


def test_the_layer_is_busybox_and_links_to_it() -> None:
    layer = content(busybox_image(NAME, b"busybox", ("sh",)), "layer.tar")
    found = members(layer)
    assert content(layer, "bin/busybox") == b"busybox"
    assert found["bin/busybox"].mode == 0o755
    links = {name: member.linkname for name, member in found.items() if member.issym()}
    assert {"bin/sh", "bin/sleep"} <= links.keys()
    assert set(links.values()) == {"busybox"}


def test_equal_inputs_give_equal_bytes() -> None:
    assert busybox_image(NAME, b"x", ("sh",)) == busybox_image(NAME, b"x", ("sh",))
    assert busybox_image(NAME, b"x", ("sh",)) != busybox_image(NAME, b"y", ("sh",))
