"""The official client in a process of its own, run by its own Python:
`python _watch_official.py PORT PODS EVENTS`.

The same work: all pods page by page into a dictionary, then a watch that keeps it up to date.
Imports nothing of ours. Prints the same line of JSON.
"""

import json
import sys
import time

import kubernetes  # type: ignore[import-not-found]


def peak() -> float:
    """MiB, the largest so far."""
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) / 1024


def main(port: str, pods: str, events: str) -> None:
    configuration = kubernetes.client.Configuration(host=f"http://127.0.0.1:{port}")
    api = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))
    items, token, version = {}, "", ""
    began, busy = time.perf_counter(), time.process_time()
    while True:
        more = {"_continue": token} if token else {}
        page = api.list_pod_for_all_namespaces(limit=500, **more)
        for pod in page.items:
            items[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod
        meta = page.metadata
        token, version = meta._continue, meta.resource_version  # noqa: SLF001 - its own name
        if not token:
            break
    listed, after_list, list_cpu = time.perf_counter(), peak(), time.process_time()
    count = 0
    watch = kubernetes.watch.Watch()
    for event in watch.stream(api.list_pod_for_all_namespaces, resource_version=version):
        pod = event["object"]
        items[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod
        count += 1
        if count == int(events):
            break
    ended = time.perf_counter()
    if len(items) != int(pods):
        sys.exit(f"{len(items)} pods")
    told = {
        "list_seconds": listed - began,
        "list_peak": after_list,
        "watch_seconds": ended - listed,
        "watch_peak": peak(),
        "list_cpu": list_cpu - busy,
        "watch_cpu": time.process_time() - list_cpu,
        "pods": len(items),
        "events": count,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
