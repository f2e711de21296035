"""An informer as a process of its own, which a test can pause: prints what it knows, line by line.

`python -m tests.cluster.informer_process KUBECONFIG NAMESPACE USER_AGENT`
"""

import random
import sys
import threading

import msgspec

from slackwater.contract.resources import CONFIG_MAPS
from slackwater.kube.client import Client
from slackwater.kube.credentials.discovery import find_access
from slackwater.kube.informer import Informer
from slackwater.model.gap import Gap
from tests.unit.kube.informer_world import QUICK, now, read_text


def main(kubeconfig: str, namespace: str, user_agent: str) -> int:
    access = find_access({}, kubeconfig)
    if isinstance(access, Gap):
        print(access.reason, file=sys.stderr)
        return 1
    changed = threading.Event()
    informer = Informer(
        Client(access, user_agent, timeout=3.0),
        CONFIG_MAPS,
        read_text,
        clock=now,
        namespace=namespace,
        changed=changed.set,
        jitter=random.Random(1),  # noqa: S311 - no secret
        pace=QUICK,
    )
    informer.start()
    while changed.wait():
        changed.clear()
        view = informer.view()
        known = {key.partition("/")[2]: text for key, text in view.items.items() if text}
        sys.stdout.buffer.write(msgspec.json.encode(known) + b"\n")
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
