"""Which Kubernetes the API server of this run is: that of all tests, or what a stage of `make
versions` says."""

import os

from tools.kubernetes.programs import KUBERNETES

VERSION = os.environ.get("SLACKWATER_TEST_KUBERNETES", KUBERNETES.version)
MINOR = int(VERSION.split(".")[1])
