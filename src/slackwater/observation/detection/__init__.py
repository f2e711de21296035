"""Detection at start-up: which cgroup version, which mounts, which driver, which tree."""

from slackwater.observation.detection.driver import clues_of, detect_driver
from slackwater.observation.detection.findings import (
    DriverVerdict,
    EnvironmentValueError,
    Finding,
    Undetected,
    VersionVerdict,
)
from slackwater.observation.detection.kubelet import kubelet_cgroup_root
from slackwater.observation.detection.kubepods import Clues, Kubepods, find_kubepods
from slackwater.observation.detection.mounts import detect_version, find_mounts

__all__ = [
    "Clues",
    "DriverVerdict",
    "EnvironmentValueError",
    "Finding",
    "Kubepods",
    "Undetected",
    "VersionVerdict",
    "clues_of",
    "detect_driver",
    "detect_version",
    "find_kubepods",
    "find_mounts",
    "kubelet_cgroup_root",
]
