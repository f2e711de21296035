"""A real cluster on this machine: a control plane on loopback, a node, and many played nodes.

`python -m tools.cluster up|down|status|run` is for people, `ControlPlane` and `Node` are for tests.
This package owns the programs that it starts, their certificates and their files, all in one folder
per cluster. It builds none of them (tools.kubernetes) and knows nothing about the tests.
"""

from tools import kubernetes

#: What a control plane and those who talk to it need.
CONTROL_PLANE_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "helm",
)
NODE_PROGRAMS = ("kubelet", "containerd", "containerd-shim-runc-v2")
MANY_NODES_PROGRAMS = ("kwok",)
# What a node on this machine needs beside its programs, and the Debian package that brings it;
# tools/setup installs them.
NODE_NEEDS = {
    # Of containerd only its client: Debian's own runtime knows no plug-ins (NRI).
    "ctr": kubernetes.NODE_PROGRAMS["ctr"],
    "runc": kubernetes.NODE_PROGRAMS["runc"],
    "busybox": "busybox-static",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    # The image that its pods run: tools.image makes it.
    "debootstrap": "debootstrap",
}
DEBIAN_PACKAGES: tuple[str, ...] = tuple(dict.fromkeys(NODE_NEEDS.values()))
