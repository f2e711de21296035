"""The base image's root, made here by debootstrap as Debian makes its own.

Owns the recipe: the smallest variant, today's updates, no documentation (debuerreotype's "slim").
Refuses every other base than the one that our Dockerfile names.
"""

import shutil
from pathlib import Path

from tools.children import Children
from tools.image.chamber import Order, run_in_root
from tools.image.failure import ImageError
from tools.image.machine import SUITE, Machine, mirror
from tools.image.recipe import BASE_PATH, key_of

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
