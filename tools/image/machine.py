"""What this machine needs to reach package registries: proxies, certificates, mirrors.

Owns which of its settings a build may see. They are gathered into a folder outside the image and
shown to commands while they run; neither a repository nor an image ever holds them.
"""

import os
import re
import shutil
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

#: Where a command in the root finds the files.
MACHINE = "/run/slackwater-machine"
SUITE = "bookworm"
ARCHIVE = "http://deb.debian.org/debian"
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
#: Where packages come from and how patiently; never a path of this machine.
_PASSED = (
    *_PROXIES,
    *(name.upper() for name in _PROXIES),
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PIP_DEFAULT_TIMEOUT",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_INSECURE_HOST",
    "UV_HTTP_TIMEOUT",
)
_CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PIP_FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
_UV_FILES = ("/etc/uv/uv.toml", "~/.config/uv/uv.toml")
_SOURCE = re.compile(r"^(?:deb|URIs:)\s+(?:\[[^]]*\]\s+)?(\S+?)/?(?:\s|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Machine:
    """A folder of files, and the variables that point to them as they are seen in the root."""

    folder: Path
    environment: Mapping[str, str]


@contextmanager
def this_machine(environ: Mapping[str, str], etc: Path = Path("/etc")) -> Iterator[Machine]:
    with TemporaryDirectory(prefix="slackwater-machine-") as made:
        folder = Path(made)
        folder.chmod(0o755)  # apt reads as a user of its own
        variables = {name: environ[name] for name in _PASSED if environ.get(name)}
        variables |= _certificates(folder) | _first(folder, "pip.conf", _PIP_FILES)
        variables |= _first(folder, "uv.toml", _UV_FILES) | _apt(folder, etc)
        yield Machine(folder, variables)


def mirror(etc: Path = Path("/etc")) -> str:
    """The archive that this machine's apt uses, where that is Debian's of our suite."""
    if not is_our_suite(etc):
        return ARCHIVE
    listed = [etc / "apt/sources.list", *sorted((etc / "apt/sources.list.d").glob("*"))]
    files = (file for file in listed if file.suffix in (".list", ".sources") and file.is_file())
    texts = (file.read_text() for file in files)
    found = (match[1] for text in texts for match in _SOURCE.finditer(text))
    return next((address for address in found if address.endswith("/debian")), ARCHIVE)


def is_our_suite(etc: Path) -> bool:
    release = etc / "os-release"
    return release.exists() and f"VERSION_CODENAME={SUITE}" in release.read_text().splitlines()


def _certificates(folder: Path) -> dict[str, str]:
    """A company's proxy signs with a certificate that only the machine's own list knows."""
    listed = ssl.get_default_verify_paths().cafile
    if not listed:
        return {}
    shutil.copyfile(listed, folder / "certificates.pem")
    return dict.fromkeys(_CERTIFICATES, f"{MACHINE}/certificates.pem")


def _first(folder: Path, name: str, files: tuple[str, ...]) -> dict[str, str]:
    """pip and uv are told of one file: the nearest to the person."""
    there = [path for path in map(os.path.expanduser, files) if os.path.isfile(path)]
    if not there:
        return {}
    shutil.copyfile(there[-1], folder / name)
    variable = {"pip.conf": "PIP_CONFIG_FILE", "uv.toml": "UV_CONFIG_FILE"}[name]
    return {variable: f"{MACHINE}/{name}"}


def _apt(folder: Path, etc: Path) -> dict[str, str]:
    """Its proxies and credentials; its sources too, where they are of the image's own suite."""
    rows = [f'Acquire::https::CAInfo "{MACHINE}/certificates.pem";']
    if (etc / "apt").is_dir() and is_our_suite(etc):
        shutil.copytree(etc / "apt", folder / "apt", symlinks=True)
        rows.append(f'Dir::Etc "{MACHINE}/apt";')
    elif (etc / "apt/apt.conf.d").is_dir():
        shutil.copytree(etc / "apt/apt.conf.d", folder / "apt.conf.d", symlinks=True)
        rows.append(f'Dir::Etc::parts "{MACHINE}/apt.conf.d";')
    (folder / "apt.conf").write_text("\n".join(rows) + "\n")
    return {"APT_CONFIG": f"{MACHINE}/apt.conf", "DEBIAN_FRONTEND": "noninteractive"}
