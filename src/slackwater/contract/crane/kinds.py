"""Names of the object kinds that we define, as an API server's paths spell them."""

import msgspec

_V1ALPHA1 = "v1alpha1"
_ENSURANCE = "ensurance.crane.io"


class KindName(msgspec.Struct, frozen=True):
    """One kind in one version. Cluster-scoped unless `namespaced`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"


AVOIDANCE_ACTION = KindName(_ENSURANCE, _V1ALPHA1, "avoidanceactions", "AvoidanceAction")
NODE_QOS = KindName(_ENSURANCE, _V1ALPHA1, "nodeqoss", "NodeQOS")
NODE_QOS_ENSURANCE_POLICY = KindName(
    _ENSURANCE, _V1ALPHA1, "nodeqosensurancepolicies", "NodeQOSEnsurancePolicy"
)
POD_QOS = KindName(_ENSURANCE, _V1ALPHA1, "podqoss", "PodQOS")
TIME_SERIES_PREDICTION = KindName(
    "prediction.crane.io", _V1ALPHA1, "timeseriespredictions", "TimeSeriesPrediction", True
)
CRANE_TOPOLOGY = KindName(
    "topology.crane.io", _V1ALPHA1, "noderesourcetopologies", "NodeResourceTopology"
)
NODE_TOPOLOGY = KindName(
    "topology.node.k8s.io", _V1ALPHA1, "noderesourcetopologies", "NodeResourceTopology"
)
