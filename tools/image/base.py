"""A root file system: made by debootstrap as Debian makes its own image's, and commands run in it.

The recipe is the smallest variant, today's updates, no documentation (debuerreotype's "slim"). A
command sees this machine's proxies, certificates and mirrors in a folder that no image ever holds.
"""

import os
import re
import shlex
import shutil
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.children import Children
from tools.image.dockerfile import BASE_PATH, ImageError, key_of

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


_DEVICES = ("null", "zero", "full", "random", "urandom")
#: $1 is the root, $2 this machine's files; the rest is the command.
_SCRIPT = f"""
root=$1 machine=$2; shift 2
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in {" ".join(_DEVICES)}; do
  : > "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
for file in resolv.conf hosts; do
  if [ -e "/etc/$file" ]; then mount --bind "/etc/$file" "$root/etc/$file"; fi
done
mount -t tmpfs -o mode=755 tmpfs "$root{MACHINE}"
cp -R "$machine/." "$root{MACHINE}/"
exec chroot "$@"
"""
_UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")


@dataclass(frozen=True, slots=True)
class Order:
    """What is run, by whom (USER[:GROUP], empty for root), where, and with which environment."""

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str = "/"
    user: str = ""


def run_in_root(children: Children, root: Path, order: Order, machine: Machine) -> tuple[int, str]:
    """The exit code, and what was said."""
    made = _mount_points(root)
    try:
        return children.run_quietly(_command(root, order, machine), {})
    finally:
        for path in reversed(made):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()


def _command(root: Path, order: Order, machine: Machine) -> list[str]:
    settings = {**order.environment, **machine.environment}
    inside = ["env", "-i", *(f"{key}={value}" for key, value in settings.items())]
    inside += ["sh", "-c", f'cd {shlex.quote(order.folder)} && exec "$@"', "sh", *order.command]
    who = [f"--userspec={order.user}"] if order.user else []
    outside = [*_UNSHARE, "sh", "-ec", _SCRIPT, "sh", str(root), str(machine.folder)]
    return [*outside, *who, str(root), "/usr/bin/env", *inside[1:]]


def _mount_points(root: Path) -> list[Path]:
    """What a mount needs to stand on; those that were not there, to be removed again."""
    made = []
    for name in ("proc", "dev", MACHINE.strip("/")):
        path = root / name
        if not os.path.lexists(path):
            path.mkdir()
            made.append(path)
    for name in ("resolv.conf", "hosts"):
        path = root / "etc" / name
        if not os.path.lexists(path):
            path.touch()
            made.append(path)
    return made


IMAGE = f"debian:{SUITE}-slim"
_VARIANT = "minbase"
_SLIM = ("usr/share/doc", "usr/share/info", "usr/share/lintian", "usr/share/locale",
         "usr/share/man")  # fmt: skip
_WASTE = ("var/lib/apt/lists", "var/cache/apt", "var/log", "run", "tmp", "debootstrap")
_EXCLUDES = "".join(f"path-exclude /{path}/*\n" for path in _SLIM)
_COPYRIGHTS = "path-include /usr/share/doc/*/copyright\n"
_SOURCES = f"""Types: deb
URIs: http://deb.debian.org/debian
Suites: {SUITE} {SUITE}-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: {SUITE}-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
_UPDATE = "apt-get update && apt-get dist-upgrade -y && apt-get clean"


def base_key(image: str) -> str:
    """The same while the recipe is."""
    if image != IMAGE:
        raise ImageError(f"the Dockerfile begins with {image}, and only {IMAGE} can be made here")
    return key_of(_VARIANT, _UPDATE, _EXCLUDES, _COPYRIGHTS, _SOURCES)


def make_base(children: Children, root: Path, machine: Machine) -> None:
    command = ["debootstrap", f"--variant={_VARIANT}", SUITE, str(root), mirror()]
    code, said = children.run_quietly(command, {})
    if code != 0:
        raise ImageError(f"debootstrap failed: {_last_words(said)}")
    (root / "etc/dpkg/dpkg.cfg.d/docker").write_text(_EXCLUDES + _COPYRIGHTS)
    (root / "etc/apt/sources.list").unlink(missing_ok=True)
    (root / "etc/apt/sources.list.d/debian.sources").write_text(_SOURCES)
    order = Order(("sh", "-ec", _UPDATE), {"PATH": BASE_PATH})
    code, said = run_in_root(children, root, order, machine)
    if code != 0:
        raise ImageError(f"the base image could not be updated: {_last_words(said)}")
    _slim(root)


def _slim(root: Path) -> None:
    for folder in _SLIM:
        for path in sorted((root / folder).rglob("*"), reverse=True):
            if path.name == "copyright":
                continue
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            else:
                path.unlink()
    for name in ("etc/resolv.conf", "etc/hostname"):
        (root / name).unlink(missing_ok=True)
    for folder in _WASTE:
        empty(root / folder)


def empty(folder: Path) -> None:
    """Of everything; the folder itself stays."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _last_words(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
