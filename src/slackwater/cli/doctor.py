"""`slackwater doctor`: arguments into a call, a report into text and an exit code."""

import os
import sys

import click

from slackwater.cli.output import (
    Output,
    WrongSettings,
    output_options,
    print_data,
    wants_colour,
)
from slackwater.cli.place import kubelet_config_option, place_options, roots_of


@click.command()
@click.option("--probe", is_flag=True, help="Try each knob on a scratch cgroup (needs root).")
@place_options
@kubelet_config_option
@output_options
def doctor(
    probe: bool,
    cgroup_root: str,
    proc_root: str,
    sys_root: str,
    host_root: str,
    kubepods: str,
    kubelet_config: str,
    output: Output,
    no_color: bool,
) -> None:
    """What this machine can do, what is wrong, and what to do about it.

    \b
    Examples:
      slackwater doctor                  what can this machine do?
      sudo slackwater doctor --probe     try every knob on a scratch cgroup, then remove it
      slackwater doctor -o json | jq .problems
      slackwater doctor --host-root /host --cgroup-root /host/sys/fs/cgroup

    \b
    Environment:
      SLACKWATER_CGROUP_VERSION   v1, v2, 1 or 2: instead of looking (VOLCANO_TEST_CGROUP_VERSION)
      CGROUP_DRIVER               cgroupfs or systemd: instead of looking

    \b
    Exit codes: 0 no problem, 1 a problem was found, 2 wrong usage or a bad environment value.
    """
    from slackwater.doctor.checkup import check_up, check_up_with_probe
    from slackwater.observation.detection import EnvironmentValueError

    roots = roots_of(cgroup_root, proc_root, sys_root, host_root, kubelet_config)
    check = check_up_with_probe if probe else check_up
    try:
        report = check(roots, os.environ, kubepods)
    except EnvironmentValueError as error:
        raise WrongSettings(str(error)) from None
    if output in (Output.JSON, Output.YAML):
        print_data(report, output)
    else:
        from slackwater.cli.doctor_text import print_report

        print_report(report, wants_colour(no_color), wide=output is Output.WIDE)
    sys.exit(1 if report.problems else 0)
