"""`slackwater rebalance run` and `loop`: settings into a round, entries into lines of JSON."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from slackwater.cli.cluster_options import (
    NAMESPACE,
    find_cluster_access,
    identity_option,
    parse_namespace,
    parse_object_name,
)
from slackwater.cli.listen import listen_address, listen_option
from slackwater.cli.output import Failed, WrongSettings
from slackwater.cli.rebalance_options import rotation_options
from slackwater.cli.rebalance_settings import resolve, resolved
from slackwater.settings.rebalancer import LogLevel, RunSettings

if TYPE_CHECKING:
    from slackwater.record.journal import JournalEntry
    from slackwater.runtime.change_log import EntrySink
    from slackwater.runtime.wakeup import InterruptibleWakePipe

LISTEN = "127.0.0.1:10482"
LEASE = "slackwater-rebalancer"
_LEVELS = tuple(LogLevel)
#: What became of a pod or a workload although nothing is broken, and still is worth a look.
_NOTABLE = frozenset(("pdb_blocked", "held_back", "capped", "stopped"))


@click.command()
@click.argument("workloads", metavar="[WORKLOAD]...", nargs=-1)
@rotation_options
def run(
    workloads: tuple[str, ...],
    file: str,
    kubeconfig: str,
    context: str,
    **said: str | bool | None,
) -> None:
    """One round: rotate what is worth it, then exit. For a CronJob.

    Pods go by the Eviction API, in batches that wait for the replacements to be Ready. Prints a
    line of JSON for each pod and each workload. The original's environment variables are
    understood.

    \b
    Examples:
      slackwater rebalance run web -n prod --dry-run
      slackwater rebalance run --file workloads.yaml
      DEPLOYMENT_NAME=web KUBE_NAMESPACE=prod slackwater rebalance run

    \b
    Exit codes: 0 rotated, or rightly nothing to do; 1 something has to be mended, a pod could not
    be evicted, or the new pods were not Ready in time; 2 wrong usage or settings.
    """
    from slackwater.rebalancer.program import run as once

    settings = resolved(workloads, file, said, os.environ)
    access = find_cluster_access(kubeconfig, context)
    with _waking() as pipe, _lines(settings.log_level) as write:
        result = once(access, settings, pipe, write, _warn)
    sys.exit(result.exit_code)


@click.command()
@click.argument("workloads", metavar="[WORKLOAD]...", nargs=-1)
@listen_option("/metrics, /healthz and /readyz", f"Default: {LISTEN}.")
@click.option(
    "--lease-namespace",
    metavar="NAME",
    default=NAMESPACE,
    show_default=True,
    callback=parse_namespace,
    envvar=["SLACKWATER_NAMESPACE", "POD_NAMESPACE"],
    show_envvar=True,
    help="Where the Lease is.",
)
@click.option(
    "--lease-name",
    metavar="NAME",
    default=LEASE,
    show_default=True,
    callback=parse_object_name,
    envvar="SLACKWATER_REBALANCE_LEASE_NAME",
    show_envvar=True,
    help="The Lease that decides which replica acts.",
)
@identity_option
@rotation_options
def loop(
    workloads: tuple[str, ...],
    listen: str | None,
    lease_namespace: str,
    lease_name: str,
    identity: str,
    file: str,
    kubeconfig: str,
    context: str,
    **said: str | bool | None,
) -> None:
    """A round every --interval, until it is asked to end. Of several replicas one acts.

    --file is read anew before each round; while it is wrong, its last good version counts.

    \b
    Examples:
      slackwater rebalance loop --file workloads.yaml
      slackwater rebalance loop web -n prod --interval 10m --dry-run

    \b
    Exit codes: 0 stopped on request; 1 it cannot run here; 2 wrong usage or settings.
    """
    from slackwater.rebalancer.program import loop as resident
    from slackwater.runtime.http_exchange import CannotListenError
    from slackwater.runtime.leadership import Candidate, process_identity

    address = listen_address(listen, LISTEN)
    settings = resolved(workloads, file, said, os.environ)
    access = find_cluster_access(kubeconfig, context)
    candidate = Candidate(lease_namespace, lease_name, identity or process_identity())
    with _waking() as pipe, _lines(settings.log_level) as write:
        source = Reread(workloads, file, said, settings, write)
        try:
            resident(access, source.settings, candidate, address, pipe, write)
        except CannotListenError as error:
            raise Failed(str(error)) from None


class Reread:
    """Guards the last good settings while their file may change."""

    def __init__(
        self,
        workloads: tuple[str, ...],
        file: str,
        said: Mapping[str, str | bool | None],
        first: RunSettings,
        write: "EntrySink",
    ) -> None:
        self._workloads = workloads
        self._file = file
        self._said = said
        self._good = first
        self._write = write
        self._logged = ""

    def settings(self) -> RunSettings:
        """As the file is now. What is wrong with it is logged once."""
        if not self._file:
            return self._good
        try:
            self._good = resolve(self._workloads, self._file, self._said, os.environ).settings
            problem = ""
        except WrongSettings as error:
            problem = error.message.replace("\nslackwater: ", "; ")
        if problem and problem != self._logged:
            self._complain(f"{problem}; the settings stay as they were")
        self._logged = problem
        return self._good

    def _complain(self, sentence: str) -> None:
        from slackwater.record.journal import JournalEntry
        from slackwater.runtime.loop import monotonic_now

        self._write(
            JournalEntry(0, monotonic_now(), self._file, because=sentence, result="refused")
        )


def level_of(entry: "JournalEntry") -> LogLevel:
    """How much an entry matters, by what became of it."""
    from slackwater.rebalancer.reason import PROBLEMS
    from slackwater.rebalancer.rotation import RemovalOutcome

    if entry.result in (RemovalOutcome.FAILED.value, "refused", *(each.value for each in PROBLEMS)):
        return LogLevel.ERROR
    return LogLevel.WARN if entry.result in _NOTABLE else LogLevel.INFO


@contextlib.contextmanager
def _lines(least: LogLevel) -> Iterator["EntrySink"]:
    """Entries of this level and above, on stdout."""
    from slackwater.cli.json_lines import writing_entries

    with writing_entries() as write_all:

        def write(entry: "JournalEntry") -> None:
            if _LEVELS.index(level_of(entry)) >= _LEVELS.index(least):
                write_all(entry)

        yield write


@contextlib.contextmanager
def _waking() -> Iterator["InterruptibleWakePipe"]:
    """A sleep that the usual signals end."""
    from slackwater.runtime.wakeup import InterruptibleWakePipe

    pipe = InterruptibleWakePipe()
    pipe.stop_on(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    try:
        yield pipe
    finally:
        pipe.close()


def _warn(sentence: str) -> None:
    click.echo(f"slackwater: {sentence}", err=True)
