"""Finds the cluster to use: kubeconfig files, or the service account of the pod we run in.

A file that is named and cannot be used is a Gap with its reason, never a reason to look elsewhere.
"""

import os
from collections.abc import Mapping

from slackwater.http.endpoint import Server, Trust, proxy_for
from slackwater.kube.access import Access, TokenFile
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def find_access(
    environ: Mapping[str, str], kubeconfig: str = "", context: str = ""
) -> Access | Gap:
    """--kubeconfig and --context, then KUBECONFIG, then in-cluster, then ~/.kube/config.

    Contexts are of kubeconfigs: if one is given, the pod's service account is not considered.
    """
    listed = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if kubeconfig or listed:
        return _from_files([kubeconfig] if kubeconfig else listed, context, environ)
    if not context and is_in_cluster(environ):
        return in_cluster(environ)
    usual = os.path.join(environ.get("HOME", "") or os.path.expanduser("~"), ".kube", "config")
    if not os.path.exists(usual):
        return Gap(
            f"no cluster is known: {usual} is not there, KUBECONFIG is not set, and this is no "
            "pod (KUBERNETES_SERVICE_HOST is not set); name a file with --kubeconfig"
        )
    return _from_files([usual], context, environ)


def _from_files(paths: list[str], context: str, environ: Mapping[str, str]) -> Access | Gap:
    """Imported here: the agent in its pod never needs it."""
    from slackwater.kube.credentials.kubeconfig import from_files

    return from_files(paths, context, environ)


def is_in_cluster(environ: Mapping[str, str]) -> bool:
    """The kubelet sets this variable in every container."""
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
    namespace = _read_namespace(f"{folder}/namespace")
    if isinstance(namespace, Gap):
        return namespace
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
        namespace=namespace,
        origin="the pod's service account",
    )


def _read_namespace(path: str) -> str | Gap:
    """The settings are looked for there: a wrong guess would be an agent without any."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(253).strip() or "default"
    except FileNotFoundError:
        return "default"
    except OSError as error:
        return Gap(f"{path} cannot be read: {error.strerror}")
