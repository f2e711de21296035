"""Which programs of Kubernetes can be built, and what makes two builds the same.

Owns the list and the key under which a finished program is kept. Builds nothing.
"""

import hashlib
from pathlib import Path

from tools.kubernetes.toolchain import ENVIRONMENT, Toolchain

MODULE = Path(__file__).parent / "module"
VERSION = "v1.34.4"
#: Name and Go package; module/tools.go imports each, so that go.sum knows what it is made of.
PROGRAMS: dict[str, str] = {
    name: f"k8s.io/kubernetes/cmd/{name}"
    for name in (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    )
}
_VERSION_PACKAGE = "k8s.io/component-base/version"
_MODULE_FILES = ("go.mod", "go.sum", "tools.go")
# How much of the hash is enough to tell apart a handful of builds of one user.
_HASH_DIGITS = 16


def build_flags() -> tuple[str, ...]:
    """Without -X the version would be v0.0.0, and clients misbehave."""
    major, minor, _ = VERSION.removeprefix("v").split(".")
    facts = {"gitVersion": VERSION, "gitMajor": major, "gitMinor": minor}
    stamps = " ".join(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in facts.items())
    return ("-trimpath", "-buildvcs=false", f"-ldflags=-s -w {stamps}")


def key(toolchain: Toolchain, module: Path = MODULE) -> str:
    """The same for the same sources, toolchain and flags."""
    settings = (f"{name}={value}" for name, value in ENVIRONMENT.items())
    hashed = hashlib.sha256("\0".join((toolchain.version, *build_flags(), *settings)).encode())
    for name in _MODULE_FILES:
        hashed.update(name.encode() + hashlib.sha256((module / name).read_bytes()).digest())
    return hashed.hexdigest()[:_HASH_DIGITS]


def kept_program(cache: Path, name: str, found_key: str) -> Path:
    """Where a finished program is; what is there is whole."""
    return cache / "kubernetes" / f"{VERSION}-{found_key}" / name
