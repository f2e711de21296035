"""Software bills of materials: CycloneDX 1.5, of what uv.lock says and what an image has of Debian.

uv writes the locked packages with the hash of each of their files. What would differ between two
builds, the time and a random number, follows from the source here.
"""

import json
import tarfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from slackwater import __version__
from tools.children import Children
from tools.image.archive import open_layer
from tools.provision import SetupError

_STATUS = "var/lib/dpkg/status"
#: Of our own in the bill's references: uuid5 of a name below it.
_NAMESPACE = uuid.UUID("6f4f3b52-8a51-5c1e-9d0b-6b1f2a0f7c11")

Bill = dict[str, Any]


def locked_packages(children: Children, uv: Path, extras: Sequence[str], stamp: str) -> Bill:
    """What the lock file says for our package with these extras; `stamp` is RFC 3339."""
    chosen = [word for extra in extras for word in ("--extra", extra)]
    command = [str(uv), "export", "--quiet", "--preview", "--frozen", "--no-dev", *chosen]
    code, said = children.run_quietly([*command, "--format", "cyclonedx1.5"], {})
    if code != 0:
        raise SetupError(f"uv could not write the bill of materials: {said.strip()}")
    bill: Bill = json.loads(said)
    bill["metadata"]["timestamp"] = stamp
    bill["metadata"]["component"]["version"] = __version__
    return numbered(bill)


def with_debian(bill: Bill, packages: Sequence[Mapping[str, str]]) -> Bill:
    """And what an image has of Debian."""
    found = [_component(each) for each in packages]
    return numbered({**bill, "components": [*bill["components"], *found]})


def numbered(bill: Bill) -> Bill:
    """With a number of its own, which is the same for the same content."""
    content = {key: value for key, value in bill.items() if key != "serialNumber"}
    number = uuid.uuid5(_NAMESPACE, json.dumps(content, sort_keys=True))
    head = {key: bill[key] for key in ("bomFormat", "specVersion", "version")}
    return {**head, "serialNumber": f"urn:uuid:{number}", **{
        key: value for key, value in content.items() if key not in head
    }}  # fmt: skip


def debian_packages(archive: Path) -> list[dict[str, str]]:
    """Those that are installed in an image, by dpkg's own list."""
    with open_layer(archive) as layer:
        try:
            file = layer.extractfile(_STATUS)
        except KeyError:
            file = None
        if file is None:
            raise tarfile.ReadError(f"{archive} has no {_STATUS}")
        return sorted(read_status(file.read().decode()), key=lambda each: each["Package"])


def read_status(text: str) -> Iterator[dict[str, str]]:
    for paragraph in text.split("\n\n"):
        rows = (row for row in paragraph.splitlines() if row[:1].strip())
        fields = {key: value for key, _, value in (row.partition(": ") for row in rows)}
        if fields.get("Status", "").endswith(" installed"):
            yield fields


def _component(package: Mapping[str, str]) -> Bill:
    name, version, machine = (package[key] for key in ("Package", "Version", "Architecture"))
    escaped = version.replace(":", "%3A").replace("+", "%2B")
    purl = f"pkg:deb/debian/{name.replace('+', '%2B')}@{escaped}?arch={machine}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def encode(bill: Bill) -> bytes:
    return json.dumps(bill, indent=1).encode() + b"\n"
