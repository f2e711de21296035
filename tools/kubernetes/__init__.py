"""Real programs of Kubernetes and its company for the tests, built by pinned Go modules.

`python -m tools.kubernetes build PROGRAM...` builds what the cache lacks and prints where each
program is. This package owns the toolchain, the build and the cache of programs, and the container
images that the tests' pods run. It starts none of the programs and knows nothing about the tests.
"""

# What a node needs beside the kubelet, by program, and the Debian package that brings it.
NODE_PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
}
# tools/setup installs them.
DEBIAN_PACKAGES: tuple[str, ...] = tuple(dict.fromkeys(NODE_PROGRAMS.values()))
