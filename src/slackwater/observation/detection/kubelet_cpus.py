"""What the kubelet does with CPUs: the policy of its CPU manager, what that gave to containers, and
which CPUs it keeps for the system.

Owns the order of the sources. The state file is the running kubelet's own word: a kubelet that
finds another policy in it does not start. Where it cannot be read the flags of the process count,
then its configuration file, in which an absent key means none. With a folder of drop-ins
(--config-dir) the file alone tells nothing. Missing everywhere is a Gap: whoever hands out CPUs
beside an unknown CPU manager takes a pod's CPUs away.
"""

import os
import re
from collections.abc import Iterable, Mapping

import msgspec

from slackwater.bounded_read import Contents, read_start
from slackwater.model.cpus import CpuListError, CpuSet, KubeletCpus
from slackwater.model.gap import Gap
from slackwater.model.units import MilliCpu, QuantityError, parse_milli_cpu, promised
from slackwater.observation.detection.kubelet import (
    CONFIG_FILES,
    CONFIG_FLAG,
    KubeletProcess,
    KubeletSetting,
    SeveralKubelets,
    arguments_of,
    find_kubelet,
    flag_values,
    list_kubelets,
    setting_in_arguments,
    setting_in_text,
    strip_comments,
)
from slackwater.observation.host import Roots

STATE_FILE = "cpu_manager_state"
DEFAULT_ROOT = "/var/lib/kubelet"
NONE, STATIC = "none", "static"
_ROOT_FLAG, _DROP_INS_FLAG = "--root-dir", "--config-dir"
_POLICY = KubeletSetting("cpuManagerPolicy", "--cpu-manager-policy", "[A-Za-z-]{1,40}")
#: A bare list has commas, at which a bare value ends.
_RESERVED_KEY = re.compile(
    r"""(?:^|[{,])[ \t]*["']?reservedSystemCPUs["']?[ \t]*:[ \t]*["']?([0-9][0-9, \t-]*)""",
    re.MULTILINE,
)
_RESERVED_FLAG = "--reserved-cpus"
#: Both of them are kept from pods.
_RESERVED_AMOUNTS = {"kubeReserved": "--kube-reserved", "systemReserved": "--system-reserved"}
_MILLI = 1000
_HOW = "name the kubelet's configuration with --kubelet-config (agent.kubeletConfig)"


class KubeletPlaces(msgspec.Struct, frozen=True):
    """Where one kubelet's state and configuration may be seen, the best view first; its flags; and
    the reason why there is no kubelet to ask. `directory` is the process' in procfs."""

    states: tuple[str, ...]
    configs: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    directory: str = ""
    absent: str = ""


class KubeletCpuReport(msgspec.Struct, frozen=True):
    """`reserved` is what was asked for: a list, or an amount. The sources are for people."""

    cpus: KubeletCpus | Gap
    source: str
    reserved: CpuSet | MilliCpu
    reserved_source: str


class _StateFile(msgspec.Struct, frozen=True):
    """kubelet/pkg/kubelet/cm/cpumanager/state/checkpoint.go, CPUManagerCheckpointV2 and V3."""

    policy: str = msgspec.field(name="policyName")
    entries: Mapping[str, Mapping[str, str]] = {}


def find_places(roots: Roots) -> KubeletPlaces:
    """A named configuration chooses among several kubelets. The kubelet's own view of a path comes
    first: it may have a root or mounts of its own."""
    kubelet = _chosen(roots)
    named = (f"{roots.host}{roots.kubelet_config}",) if roots.kubelet_config else ()
    if isinstance(kubelet, SeveralKubelets):
        return KubeletPlaces((), named, absent=kubelet.reason)
    if isinstance(kubelet, Gap):
        usual = (f"{roots.host}{DEFAULT_ROOT}/{STATE_FILE}",)
        configs = named or (f"{roots.host}{CONFIG_FILES[0]}",)
        return KubeletPlaces(usual, configs, absent=kubelet.reason)
    root = _last(flag_values(kubelet.arguments, _ROOT_FLAG)) or DEFAULT_ROOT
    config = _last(flag_values(kubelet.arguments, CONFIG_FLAG))
    told = _views(roots, kubelet, config) if config else ()
    states = _views(roots, kubelet, f"{root}/{STATE_FILE}")
    return KubeletPlaces(states, (*named, *told), kubelet.arguments, kubelet.directory)


def process_is_there(places: KubeletPlaces) -> bool:
    """Whether it is still the process whose flags these are."""
    if not places.directory:
        return False
    contents = read_start(f"{places.directory}/cmdline")
    return isinstance(contents, Contents) and arguments_of(contents.data) == places.arguments


def _chosen(roots: Roots) -> KubeletProcess | Gap:
    """Where a configuration is named, a kubelet that was started with another one is not this
    node's."""
    if not roots.kubelet_config:
        return find_kubelet(roots)
    there = list_kubelets(roots)
    configs = [_last(flag_values(each.arguments, CONFIG_FLAG)) for each in there]
    told = list(zip(there, configs, strict=True))
    mine = [each for each, config in told if config == roots.kubelet_config]
    chosen = mine or [each for each, config in told if not config]
    if len(chosen) == 1:
        return chosen[0]
    if there:
        named = roots.kubelet_config[:80]
        return SeveralKubelets(f"none of {len(there)} kubelets was started with {named!r}")
    return find_kubelet(roots)


def _views(roots: Roots, kubelet: KubeletProcess, path: str) -> tuple[str, ...]:
    if not path.startswith("/"):
        return (f"{kubelet.directory}/cwd/{path}",)
    absolute = os.path.normpath(path)
    return (f"{kubelet.directory}/root{absolute}", f"{roots.host}{absolute}")


def _last(values: list[str]) -> str:
    return values[-1] if values else ""


def read_kubelet_cpus(places: KubeletPlaces) -> KubeletCpuReport:
    config = _first_readable(places.configs)
    cpus, source = _read_policy(places, config)
    text = None if isinstance(config, Gap) else config.data
    try:
        reserved, reserved_source = _reserved(places.arguments, text)
    except (CpuListError, QuantityError) as error:
        return KubeletCpuReport(Gap(f"the kubelet's reserved CPUs: {error}"), source, CpuSet(), "")
    if isinstance(config, Gap) and not reserved_source:
        reserved_source = f"not known: the kubelet's configuration is {config.reason}"
    return KubeletCpuReport(cpus, source, reserved, reserved_source or "the kubelet reserves none")


def _read_policy(places: KubeletPlaces, config: Contents | Gap) -> tuple[KubeletCpus | Gap, str]:
    """The policy, and who said so."""
    state = _first_readable(places.states)
    if isinstance(state, Contents):
        return _parse_state(state.data), STATE_FILE
    by_flag = setting_in_arguments(places.arguments, _POLICY).value
    if by_flag is not None:
        return KubeletCpus(by_flag), _POLICY.flag
    if flag_values(places.arguments, _DROP_INS_FLAG):
        why = f"the kubelet has {_DROP_INS_FLAG}, and its {STATE_FILE} is {state.reason}"
        return _unknown(why), ""
    if isinstance(config, Contents):
        return KubeletCpus(setting_in_text(config.data, _POLICY).value or NONE), "its configuration"
    if places.absent and places.states == (f"{DEFAULT_ROOT}/{STATE_FILE}",):
        # The machine's own root: nothing of a kubelet is here, so nobody else hands out CPUs.
        return KubeletCpus(NONE), places.absent
    why = places.absent or f"its {STATE_FILE} is {state.reason}, its configuration {config.reason}"
    return _unknown(why), ""


def _unknown(why: str) -> Gap:
    return Gap(f"what the kubelet's CPU manager does is not known ({why}); {_HOW}")


def _first_readable(paths: Iterable[str]) -> Contents | Gap:
    """A file that was mounted by itself and then replaced on the host, as the kubelet replaces its
    state, has no name any more: what it says is history."""
    found: Contents | Gap = Gap("nowhere to be found")
    for path in paths:
        found = read_start(path)
        if isinstance(found, Gap):
            continue
        try:
            if os.stat(path).st_nlink:
                return found
        except OSError as error:
            found = Gap(f"not readable: {error.strerror}")
            continue
        found = Gap("one that was replaced since it was mounted: restart the agent")
    return found


def _parse_state(data: bytes) -> KubeletCpus | Gap:
    """The checksum is the kubelet's to judge: it does not start with a wrong one."""
    try:
        state = msgspec.json.decode(data, type=_StateFile)
        assigned = {
            uid: {name: CpuSet.parse(cpus) for name, cpus in containers.items()}
            for uid, containers in state.entries.items()
        }
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return Gap(f"the kubelet's {STATE_FILE} is not one: {error}")
    except CpuListError as error:
        return Gap(f"the kubelet's {STATE_FILE}: {error}")
    return KubeletCpus(state.policy, assigned)


def _reserved(arguments: tuple[str, ...], config: bytes | None) -> tuple[CpuSet | MilliCpu, str]:
    """A flag beats the file; a list beats amounts (pkg/kubelet/cm/cpumanager/cpu_manager.go)."""
    text = "" if config is None else strip_comments(config)
    by_flag = _last(flag_values(arguments, _RESERVED_FLAG))
    if by_flag:
        return CpuSet.parse(by_flag), _RESERVED_FLAG
    by_key = _RESERVED_KEY.search(text)
    if by_key:
        return CpuSet.parse(by_key[1]), "reservedSystemCPUs"
    total, named = 0, []
    for key, flag in _RESERVED_AMOUNTS.items():
        amount = _cpu_of_flag(arguments, flag) or _cpu_below(text, key)
        if amount:
            total += parse_milli_cpu(amount)
            named.append(key)
    return MilliCpu(total), " and ".join(named)


def _cpu_of_flag(arguments: tuple[str, ...], flag: str) -> str:
    """Of `--kube-reserved=cpu=200m,memory=1Gi`."""
    pairs = (pair.partition("=") for pair in _last(flag_values(arguments, flag)).split(","))
    return next((value.strip() for name, _, value in pairs if name.strip() == "cpu"), "")


def _cpu_below(text: str, key: str) -> str:
    """The cpu of a mapping, in braces or indented: the only one that is looked for below another
    key, which is not worth loading a YAML parser for."""
    quoted = rf"""["']?{key}["']?[ \t]*:"""
    braces = re.search(rf"{quoted}\s*\{{([^}}]*)\}}", text)
    block = re.search(rf"^([ \t]*){quoted}[ \t]*\n((?:\1[ \t]+[^\n]*\n?)*)", text, re.MULTILINE)
    inner = braces[1] if braces else block[2] if block else ""
    found = re.search(r"""(?:^|[{,\s])["']?cpu["']?[ \t]*:[ \t]*["']?([^\s,}"']+)""", inner)
    return found[1] if found else ""


def round_up_to_cpus(amount: MilliCpu) -> int:
    """As the kubelet reserves: whole CPUs."""
    return promised(amount, _MILLI)
