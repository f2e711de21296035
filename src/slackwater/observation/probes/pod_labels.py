"""The labels that tell whose a series is. They are always ours: no answer can claim another pod."""

from collections.abc import Iterator

from slackwater.model.metric import Sample, Samples
from slackwater.model.workload import Workload


def pod_labels(pod: Workload) -> dict[str, str]:
    return {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUid": pod.uid}


def label_samples(samples: Samples, pod: Workload) -> Iterator[Sample]:
    own = pod_labels(pod)
    for sample in samples:
        yield Sample(sample.value, {**sample.labels, **own}, sample.at)
