"""Access from inside a pod: the service account that the kubelet mounts, and two variables."""

import os
from collections.abc import Mapping

from slackwater.kube.access import Access, Server, Trust
from slackwater.kube.credentials import TokenFile
from slackwater.kube.proxy import proxy_for
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def is_in_cluster(environ: Mapping[str, str]) -> bool:
    """Whether the kubelet started us; it sets both variables in every container."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST"))


def in_cluster(environ: Mapping[str, str], folder: str = SERVICE_ACCOUNT) -> Access | Gap:
    host, text = (environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65_536):
        return Gap(f"KUBERNETES_SERVICE_PORT is {quoted(text)}, but must be a port, 1 to 65535")
    for name in ("token", "ca.crt"):
        if not os.access(f"{folder}/{name}", os.R_OK):
            return Gap(
                f"{folder}/{name} cannot be read: mount a service account's token into the pod "
                "(automountServiceAccountToken)"
            )
    # A kubelet before 1.20 wrote IPv6 addresses with brackets here.
    server = Server(host.strip("[]"), int(text))
    proxy = proxy_for(server, environ)
    if isinstance(proxy, Gap):
        return proxy
    return Access(
        server=server,
        trust=Trust(authority_file=f"{folder}/ca.crt"),
        credentials=TokenFile(f"{folder}/token"),
        proxy=proxy,
        namespace=_namespace(f"{folder}/namespace"),
        origin="the pod's service account",
    )


def _namespace(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(253).strip() or "default"
    except OSError:
        return "default"
