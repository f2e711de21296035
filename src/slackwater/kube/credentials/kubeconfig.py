"""Access from kubeconfig files: clusters, users and contexts, as kubectl reads them.

Files are merged as kubectl does it: the first file that has a field or an entry wins, and an entry
is taken as a whole. Of clusters and users only those of the chosen context are checked. What is not
supported (auth-provider, SOCKS) is refused: ignoring it would mean acting as somebody else.
"""

import base64
import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import yaml
from msgspec import Meta

from slackwater.contract.decoding import read_struct
from slackwater.contract.document import Field
from slackwater.contract.schema import BOUND, CHECK, HIDDEN
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
from slackwater.kube.credentials.exec_plugin import ExecCredentials, ExecPlugin
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError, Problem, quoted

T = TypeVar("T", bound=msgspec.Struct)

#: Enough for ten thousand clusters.
_LARGEST_FILE = 8 << 20
#: A cluster's extension of this name is for its exec plugin (clientcmd/api/types.go).
_EXTENSION = "client.authentication.k8s.io/exec"
_URL = "a URL such as https://10.0.0.1:6443"
_MODES = "Never, IfAvailable or Always"


def _decode(packed: str) -> bytes:
    return base64.b64decode("".join(packed.split()), validate=True)


def _is_base64(text: str) -> bool:
    try:
        _decode(text)
    except ValueError:
        return False
    return True


_Base64 = Annotated[str, Meta(extra={CHECK: _is_base64, BOUND: "base64"})]
_Secret = Annotated[str, Meta(extra={HIDDEN: ""})]
_Printable = Annotated[str, Meta(pattern=r"^[ -~]*\Z", extra={BOUND: "printable ASCII"})]
_LIST = Meta(extra={BOUND: "a list of texts"})


class _NamedEntry(msgspec.Struct, frozen=True):
    """An entry of clusters, users or contexts; what it names is read when it is chosen."""

    name: str = ""
    cluster: Any = None
    user: Any = None
    context: Any = None


class _Kubeconfig(msgspec.Struct, frozen=True):
    current_context: str = msgspec.field(default="", name="current-context")
    clusters: tuple[_NamedEntry, ...] = ()
    users: tuple[_NamedEntry, ...] = ()
    contexts: tuple[_NamedEntry, ...] = ()


class _Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _Extension(msgspec.Struct, frozen=True):
    name: str = ""
    extension: Any = None


class _Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: Annotated[str, Meta(extra={BOUND: _URL})]
    certificate_authority: str = ""
    certificate_authority_data: _Base64 = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[_Extension, ...] = ()


class _User(msgspec.Struct, frozen=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: _Base64 = ""
    client_key: str = ""
    client_key_data: Annotated[_Base64, Meta(extra={HIDDEN: ""})] = ""
    token: Annotated[
        _Secret,
        Meta(pattern=r"^\s*[!-~]*\s*\Z", extra={BOUND: "a text, printable and without spaces"}),
    ] = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: _Secret = ""
    auth_provider: Any = None
    exec: Any = None
    as_user: _Printable = msgspec.field(default="", name="as")
    as_uid: _Printable = ""
    as_groups: Annotated[tuple[_Printable, ...], _LIST] = ()
    as_user_extra: dict[str, Annotated[tuple[_Printable, ...], _LIST]] = {}


class _Variable(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1, extra={BOUND: "a name"})]
    value: str = ""


class _Exec(msgspec.Struct, frozen=True, rename="camel"):
    api_version: Literal["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"]
    command: Annotated[str, Meta(min_length=1, extra={BOUND: "the name or the path of a program"})]
    args: Annotated[tuple[str, ...], _LIST] = ()
    env: tuple[_Variable, ...] = ()
    install_hint: str = ""
    interactive_mode: Annotated[
        Literal["Never", "IfAvailable", "Always", ""] | None, Meta(extra={BOUND: _MODES})
    ] = None
    provide_cluster_info: bool = False


class _File(msgspec.Struct, frozen=True):
    path: str
    content: _Kubeconfig


_Kind = Literal["cluster", "user", "context"]


class _KubeconfigEntry(msgspec.Struct, Generic[T], frozen=True):
    """A cluster, user or context, and where it stands: its paths are relative to its file."""

    at: Field
    content: T

    def refused(self, key: str, value: object, bound: str) -> InvalidError:
        return self.at.at(key, value).refused(bound)

    def resolve(self, path: str) -> str:
        folder = os.path.dirname(os.path.abspath(str(self.at.source)))
        return os.path.join(folder, path) if path else ""

    def data(self, key: str, packed: str, path: str) -> bytes:
        """The decoded `packed`, else the content of the file that `key` names."""
        if packed or not path:
            return _decode(packed)
        try:
            with open(self.resolve(path), "rb") as file:
                return file.read(_LARGEST_FILE)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise self.refused(key, path, f"a file that can be read ({why})") from None


def from_files(paths: Sequence[str], context: str, environ: Mapping[str, str]) -> Access | Gap:
    """Merged in this order. Missing files are skipped, unless all are missing."""
    files: list[_File] = []
    missing = ""
    try:
        for path in paths:
            try:
                found = _read_file(path)
            except FileNotFoundError:
                missing = f"{path} is not there"
                continue
            except OSError as error:
                return Gap(f"{path} cannot be read: {error.strerror or error}")
            if isinstance(found, Gap):
                return found
            files.append(found)
        return _access(files, context, environ) if files else Gap(missing or "no kubeconfig")
    except InvalidError as error:
        return Gap(str(error))


def _read_file(path: str) -> _File | Gap:
    """Raises OSError if there is no such file, and InvalidError."""
    with open(path, "rb") as file:
        content = file.read(_LARGEST_FILE)
    try:
        found = yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except (yaml.YAMLError, UnicodeError, ValueError, RecursionError) as error:
        why = " ".join(str(getattr(error, "problem", None) or error).split())
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        return Gap(f"{path}{line} is not YAML: {why}")
    if found is not None and not isinstance(found, dict):
        # Without its content: it may be a token file that was named by mistake.
        kind = "a list" if isinstance(found, list) else "not a mapping"
        return Gap(f"{path} is {kind}, but must be a kubeconfig, a mapping")
    return _File(path, read_struct(Field(path, "", found or {}), _Kubeconfig))


def _rows(file: _File, kind: _Kind) -> tuple[_NamedEntry, ...]:
    rows: tuple[_NamedEntry, ...] = getattr(file.content, f"{kind}s")
    return rows


def _find(
    files: Sequence[_File], kind: _Kind, name: str, content: type[T]
) -> _KubeconfigEntry[T] | None:
    """The entry of this name in the first file that has one."""
    for file in files:
        for place, row in enumerate(_rows(file, kind)):
            if row.name == name:
                value = getattr(row, kind)
                path = f"{kind}s[{place}].{kind}"
                at = Field(file.path, path, {} if value is None else value)
                return _KubeconfigEntry(at, read_struct(at, content))
    return None


def _find_named(
    files: Sequence[_File],
    context: _KubeconfigEntry[_Context],
    kind: _Kind,
    name: str,
    content: type[T],
) -> _KubeconfigEntry[T]:
    """The cluster or user that a context names."""
    found = _find(files, kind, name, content) if name else None
    if found is None:
        raise context.refused(kind, name or None, _known(files, kind))
    return found


def _known(files: Sequence[_File], kind: _Kind) -> str:
    found = [quoted(row.name) for file in files for row in _rows(file, kind)]
    if not found:
        return f"one of its {kind}s (it has none)"
    shown = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
    return f"one of its {kind}s: {shown}"


def _access(files: Sequence[_File], wanted: str, environ: Mapping[str, str]) -> Access | Gap:
    stated = (file.content.current_context for file in files)
    chosen = wanted or next(filter(None, stated), "")
    context = _find(files, "context", chosen, _Context) if chosen else None
    if context is None:
        known = _known(files, "context")
        if wanted:
            raise InvalidError(Problem("--context", quoted(wanted), known))
        raise Field(files[0].path, "current-context", chosen or None).refused(known)
    cluster = _find_named(files, context, "cluster", context.content.cluster, _Cluster)
    user = _KubeconfigEntry(context.at, _User())
    if context.content.user:
        user = _find_named(files, context, "user", context.content.user, _User)
    server = _server(cluster)
    proxy = _proxy(server, cluster, environ)
    if isinstance(proxy, Gap):
        return proxy
    return Access(
        server=server,
        trust=_trust(cluster),
        credentials=_credentials(user, cluster, environ),
        proxy=proxy,
        namespace=context.content.namespace or "default",
        origin=f"{context.at.source}, context {chosen}",
        headers=_impersonation(user),
    )


def _server(cluster: _KubeconfigEntry[_Cluster]) -> Server:
    text = cluster.content.server
    try:
        url = urlsplit(text)
        port = url.port or DEFAULT_PORTS.get(url.scheme, 0)
    except ValueError:
        raise cluster.refused("server", text, _URL) from None
    if url.scheme not in DEFAULT_PORTS or not url.hostname or url.query or url.fragment:
        raise cluster.refused("server", text, _URL)
    return Server(url.hostname, port, url.scheme, url.path.rstrip("/"))


def _authority(cluster: _KubeconfigEntry[_Cluster]) -> bytes:
    found = cluster.content
    return cluster.data(
        "certificate-authority", found.certificate_authority_data, found.certificate_authority
    )


def _trust(cluster: _KubeconfigEntry[_Cluster]) -> Trust:
    found, authority = cluster.content, _authority(cluster)
    if found.insecure_skip_tls_verify and authority:
        bound = "false where there is a certificate-authority"
        raise cluster.refused("insecure-skip-tls-verify", True, bound)
    from_data = bool(found.certificate_authority_data)
    return Trust(
        # A file stays a file, so that its rotation is seen.
        authority_file="" if from_data else cluster.resolve(found.certificate_authority),
        authority_data=authority if from_data else b"",
        server_name=found.tls_server_name,
        unchecked=found.insecure_skip_tls_verify,
    )


def _proxy(
    server: Server, cluster: _KubeconfigEntry[_Cluster], environ: Mapping[str, str]
) -> Proxy | Gap | None:
    stated = cluster.content.proxy_url
    where = cluster.at.at("proxy-url", stated).where()
    return parse_proxy(stated, where) if stated else proxy_for(server, environ)


def _credentials(
    user: _KubeconfigEntry[_User], cluster: _KubeconfigEntry[_Cluster], environ: Mapping[str, str]
) -> Credentials:
    """In kubectl's order: a certificate beside anything; then a token's file before a token."""
    found = user.content
    if found.auth_provider:
        raise user.refused("auth-provider", found.auth_provider, "replaced by an exec plugin")
    certificate = user.data(
        "client-certificate", found.client_certificate_data, found.client_certificate
    )
    key = user.data("client-key", found.client_key_data, found.client_key)
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise user.refused(missing, None, "there: a certificate and its key go together")
    shown = Identity("", certificate, key)
    if found.token_file:
        return TokenFile(user.resolve(found.token_file), shown)
    if found.token:
        return FixedCredentials(Identity(bearer(found.token.strip()), certificate, key))
    if found.username:
        basic = basic_authorization(found.username, found.password)
        return FixedCredentials(Identity(basic, certificate, key))
    if found.exec and not certificate:
        at = user.at.at("exec", found.exec)
        return ExecCredentials(
            _plugin(_KubeconfigEntry(at, read_struct(at, _Exec)), cluster), environ
        )
    return FixedCredentials(shown)


def _impersonation(user: _KubeconfigEntry[_User]) -> tuple[tuple[str, str], ...]:
    """As whom we act: dropping this would mean to act with rights that were put aside."""
    found = user.content
    if not found.as_user:
        if found.as_groups or found.as_user_extra or found.as_uid:
            raise user.refused("as", None, "there where as-groups, as-uid or as-user-extra is")
        return ()
    headers = [("Impersonate-User", found.as_user)]
    headers += [("Impersonate-Group", group) for group in found.as_groups]
    if found.as_uid:
        headers.append(("Impersonate-Uid", found.as_uid))
    for key, values in found.as_user_extra.items():
        header = f"Impersonate-Extra-{quote(key, safe='')}"
        headers += [(header, value) for value in values]
    return tuple(headers)


def _plugin(plugin: _KubeconfigEntry[_Exec], cluster: _KubeconfigEntry[_Cluster]) -> ExecPlugin:
    found = plugin.content
    mode = found.interactive_mode
    if not mode and found.api_version == "client.authentication.k8s.io/v1":
        raise plugin.refused("interactiveMode", mode, _MODES)
    return ExecPlugin(
        found.api_version,
        plugin.resolve(found.command) if os.sep in found.command else found.command,
        found.args,
        tuple((each.name, each.value) for each in found.env),
        found.install_hint,
        mode or "IfAvailable",
        _cluster_info(cluster) if found.provide_cluster_info else None,
    )


def _cluster_info(cluster: _KubeconfigEntry[_Cluster]) -> dict[str, object]:
    """ExecCredential's spec.cluster (client-go, pkg/apis/clientauthentication)."""
    found = cluster.content
    stated: dict[str, object] = {
        "server": found.server,
        "tls-server-name": found.tls_server_name,
        "insecure-skip-tls-verify": found.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(_authority(cluster)).decode(),
        "proxy-url": found.proxy_url,
    }
    for each in found.extensions:
        if each.name == _EXTENSION:
            stated["config"] = each.extension
    return {key: value for key, value in stated.items() if value}
