"""Access from kubeconfig files: clusters, users and contexts, as kubectl reads them.

What is not supported (auth-provider, SOCKS) is refused with a sentence: ignoring it would mean to
act as somebody else.
"""

import os
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlsplit

from slackwater.http.endpoint import (
    DEFAULT_PORTS,
    Identity,
    Proxy,
    Server,
    Trust,
    basic_authorization,
    parse_proxy,
    proxy_for,
)
from slackwater.kube.access import Access, Credentials, FixedCredentials, TokenFile, bearer
from slackwater.kube.credentials.exec_plugin import MODES, VERSIONS, ExecCredentials, ExecPlugin
from slackwater.kube.credentials.kubeconfig_document import (
    KubeconfigEntry,
    KubeconfigError,
    find_row,
    names,
    read_file,
)
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted

#: A cluster's extension of this name is for its exec plugin (clientcmd/api/types.go).
_EXTENSION = "client.authentication.k8s.io/exec"


def from_files(paths: Sequence[str], context: str, environ: Mapping[str, str]) -> Access | Gap:
    """Merged in this order. Missing files are skipped, unless all are missing."""
    files: list[KubeconfigEntry] = []
    missing = ""
    try:
        for path in paths:
            try:
                files.append(read_file(path))
            except FileNotFoundError:
                missing = f"{path} is not there"
            except OSError as error:
                return Gap(f"{path} cannot be read: {error.strerror or error}")
        return _access(files, context, environ) if files else Gap(missing or "no kubeconfig")
    except KubeconfigError as error:
        return Gap(str(error))


def _access(files: Sequence[KubeconfigEntry], wanted: str, environ: Mapping[str, str]) -> Access:
    chosen = wanted or next((name for file in files if (name := file.text("current-context"))), "")
    source = files[0].file
    if not chosen:
        known = _known(files, "contexts")
        raise KubeconfigError(f"{source}: current-context is missing, but must be {known}")
    row = find_row(files, "contexts", chosen)
    if row is None:
        known = _known(files, "contexts")
        what = "--context" if wanted else f"{source}: current-context"
        raise KubeconfigError(f"{what} is {quoted(chosen)}, but must be {known}")
    context = row.below("context")
    cluster = _named(files, context, "cluster")
    user = _named(files, context, "user") if context.text("user") else None
    server = _server(cluster)
    return Access(
        server=server,
        trust=_trust(cluster),
        credentials=_credentials(user, cluster, environ),
        proxy=_proxy(server, cluster, environ),
        namespace=context.text("namespace") or "default",
        origin=f"{row.file}, context {chosen}",
        headers=() if user is None else _impersonation(user),
    )


def _named(
    files: Sequence[KubeconfigEntry], context: KubeconfigEntry, kind: str
) -> KubeconfigEntry:
    """The cluster or user that a context names."""
    name = context.needed(kind, _known(files, f"{kind}s"))
    row = find_row(files, f"{kind}s", name)
    if row is None:
        raise context.refused(kind, _known(files, f"{kind}s"))
    return row.below(kind)


def _known(files: Sequence[KubeconfigEntry], key: str) -> str:
    found = [quoted(name) for name in names(files, key)]
    if not found:
        return f"one of its {key} (it has none)"
    shown = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
    return f"one of its {key}: {shown}"


def _server(cluster: KubeconfigEntry) -> Server:
    wanted = "a URL such as https://10.0.0.1:6443"
    text = cluster.needed("server", wanted)
    try:
        url = urlsplit(text)
        port = url.port or DEFAULT_PORTS.get(url.scheme, 0)
    except ValueError:
        raise cluster.refused("server", wanted) from None
    if url.scheme not in DEFAULT_PORTS or not url.hostname or url.query or url.fragment:
        raise cluster.refused("server", wanted)
    return Server(url.hostname, port, url.scheme, url.path.rstrip("/"))


def _trust(cluster: KubeconfigEntry) -> Trust:
    unchecked = cluster.flag("insecure-skip-tls-verify")
    authority = cluster.data("certificate-authority")
    if unchecked and authority:
        wanted = "false where there is a certificate-authority"
        raise cluster.refused("insecure-skip-tls-verify", wanted)
    from_data = bool(cluster.text("certificate-authority-data"))
    return Trust(
        authority_file="" if from_data else cluster.place("certificate-authority"),
        authority_data=authority if from_data else b"",
        server_name=cluster.text("tls-server-name"),
        unchecked=unchecked,
    )


def _proxy(server: Server, cluster: KubeconfigEntry, environ: Mapping[str, str]) -> Proxy | None:
    said = cluster.text("proxy-url")
    where = f"{cluster.file}: {cluster.path}.proxy-url"
    proxy = parse_proxy(said, where) if said else proxy_for(server, environ)
    if isinstance(proxy, Gap):
        raise KubeconfigError(proxy.reason)
    return proxy


def _credentials(
    user: KubeconfigEntry | None, cluster: KubeconfigEntry, environ: Mapping[str, str]
) -> Credentials:
    """In kubectl's order: a certificate beside anything; then a token's file before a token."""
    if user is None:
        return FixedCredentials(Identity())
    if user.fields.get("auth-provider"):
        raise user.refused("auth-provider", "replaced by an exec plugin")
    certificate, key = user.data("client-certificate"), user.data("client-key")
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise user.refused(missing, "there: a certificate and its key go together")
    shown = Identity("", certificate, key)
    if user.text("tokenFile"):
        return TokenFile(user.place("tokenFile"), shown)
    if user.text("token"):
        return FixedCredentials(Identity(bearer(_token(user)), certificate, key))
    if user.text("username"):
        basic = basic_authorization(user.text("username"), user.text("password"))
        return FixedCredentials(Identity(basic, certificate, key))
    if user.fields.get("exec") and not certificate:
        return ExecCredentials(_plugin(user.below("exec"), cluster), environ)
    return FixedCredentials(shown)


def _token(user: KubeconfigEntry) -> str:
    token = user.text("token").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise user.refused("token", "printable and without spaces")
    return token


def _impersonation(user: KubeconfigEntry) -> tuple[tuple[str, str], ...]:
    """As whom we act: dropping this would mean to act with rights that were put aside."""
    name, groups = user.text("as"), user.texts("as-groups")
    extra = user.below("as-user-extra")
    if not name and (groups or extra.fields or user.text("as-uid")):
        raise user.refused("as", "there where as-groups, as-uid or as-user-extra is")
    found = [("Impersonate-User", name)] if name else []
    found += [("Impersonate-Group", group) for group in groups]
    if user.text("as-uid"):
        found.append(("Impersonate-Uid", user.text("as-uid")))
    for key in extra.fields:
        header = f"Impersonate-Extra-{quote(key, safe='')}"
        found += [(header, value) for value in extra.texts(key)]
    for header, value in found:
        if not value.isprintable() or not value.isascii():
            raise KubeconfigError(f"{user.file}: {user.path}: {header} must be printable ASCII")
    return tuple(found)


def _plugin(found: KubeconfigEntry, cluster: KubeconfigEntry) -> ExecPlugin:
    version = found.text("apiVersion")
    if version not in VERSIONS:
        raise found.refused("apiVersion", " or ".join(VERSIONS))
    mode = found.text("interactiveMode") or ("" if version == VERSIONS[0] else "IfAvailable")
    if mode not in MODES:
        raise found.refused("interactiveMode", ", ".join(MODES[:2]) + f" or {MODES[2]}")
    command = found.needed("command", "the name or the path of a program")
    if os.sep in command:
        command = found.place("command")
    asks_cluster = found.flag("provideClusterInfo")
    return ExecPlugin(
        version,
        command,
        found.texts("args"),
        tuple((row.needed("name", "a name"), row.text("value")) for row in found.rows("env")),
        found.text("installHint"),
        mode,
        _cluster_info(cluster) if asks_cluster else None,
    )


def _cluster_info(cluster: KubeconfigEntry) -> dict[str, object]:
    """ExecCredential's spec.cluster (client-go, pkg/apis/clientauthentication)."""
    import base64

    authority = base64.b64encode(cluster.data("certificate-authority")).decode()
    said: dict[str, object] = {
        "server": cluster.text("server"),
        "tls-server-name": cluster.text("tls-server-name"),
        "insecure-skip-tls-verify": cluster.flag("insecure-skip-tls-verify"),
        "certificate-authority-data": authority,
        "proxy-url": cluster.text("proxy-url"),
    }
    for row in cluster.rows("extensions"):
        if row.text("name") == _EXTENSION:
            said["config"] = row.fields.get("extension")
    return {key: value for key, value in said.items() if value}
