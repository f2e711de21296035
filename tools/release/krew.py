"""What `kubectl krew install` needs: an archive with the wheel and its launcher, and the manifest.

The manifest names where the archive can be downloaded, which whoever publishes it says; without
that it is an address that nobody can own (RFC 2606).
"""

import gzip
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.provision import ROOT

ARCHIVE = "kubectl-slackwater.tar.gz"
#: krew wants the file to have the plugin's name.
MANIFEST = "slackwater.yaml"
LAUNCHER = ROOT / "tools" / "release" / "kubectl-slackwater"
NOWHERE = "https://slackwater.invalid/releases"
#: PEP 440 as far as our versions go: 1.2.3, 1.2.3.dev4, 1.2.3rc4.
_VERSION = re.compile(r"(\d+\.\d+\.\d+)(?:\.?(dev|a|b|rc)(\d+))?", re.ASCII)
_ARCHITECTURES = ("amd64", "arm64")
_CAVEATS = """\
It needs Python 3.11 or newer with venv; the first call installs the packages that it uses.
For completion:
  ln -s kubectl-slackwater "${KREW_ROOT:-$HOME/.krew}/bin/kubectl_complete-slackwater"
"""


def write_archive(wheel: Path, epoch: int, target: Path) -> None:
    """The same bytes from the same wheel: no owner, no time but `epoch`."""
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path, mode in ((LAUNCHER, 0o755), (wheel, 0o644), (ROOT / "LICENSE", 0o644)):
            content = path.read_bytes()
            entry = tarfile.TarInfo(path.name)
            entry.size, entry.mode, entry.mtime = len(content), mode, epoch
            archive.addfile(entry, io.BytesIO(content))


def manifest(version: str, sha256: str, download_from: str = NOWHERE) -> str:
    """As krew reads it (krew.sigs.k8s.io/docs/developer-guide/plugin-manifest)."""
    place = download_from.rstrip("/")
    made = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "slackwater"},
        "spec": {
            "version": semantic_version(version),
            "homepage": place,
            "shortDescription": "CPU quality of service: see it, and why",
            "description": (
                "Shows what Slackwater does on each node and why, with your own rights: "
                "`top`, `explain` and `cpus` of a node, `status` of the cluster.\n"
            ),
            "caveats": _CAVEATS,
            "platforms": list(_platforms(f"{place}/{ARCHIVE}", sha256)),
        },
    }
    text: str = yaml.safe_dump(made, sort_keys=False, allow_unicode=True)
    return text


def _platforms(uri: str, sha256: str) -> Iterator[dict[str, Any]]:
    for architecture in _ARCHITECTURES:
        yield {
            "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
            "uri": uri,
            "sha256": sha256,
            "bin": LAUNCHER.name,
        }


def semantic_version(version: str) -> str:
    """1.2.3.dev4 is v1.2.3-dev.4."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise ValueError(f"the version {version} has no form that krew knows, such as 1.2.3rc4")
    release, kind, number = found.groups()
    return f"v{release}-{kind}.{number}" if kind else f"v{release}"
