"""The door to detection: which cgroup version, which mounts, which driver, which tree.

Owns nothing but the list of what a program may call; each part is in a module of its own.
"""

from slackwater.observation.driver_detection import detect_driver
from slackwater.observation.kubelet_sources import kubelet_cgroup_root
from slackwater.observation.kubepods import Clues, Kubepods, find_kubepods
from slackwater.observation.mounts import find_mounts
from slackwater.observation.tree_clues import clues_of
from slackwater.observation.verdicts import (
    DriverVerdict,
    EnvironmentValueError,
    Finding,
    Undetected,
    VersionVerdict,
)
from slackwater.observation.version_detection import detect_version

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
