"""Crane's TimeSeriesPrediction: what is to be predicted, how, and what came out.

Owns its fields and bounds, and of the ConfigMap noderesource-tsp-template the part that is the
same. Crane takes any text for a number or a duration and falls back to its defaults without a
word; here such a text is refused.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane.fields import (
    Decimal,
    Duration,
    LongNumber,
    Number,
    PolicyCondition,
    Text,
)
from slackwater.contract.kubernetes import KubernetesObject
from slackwater.contract.schema import BOUND

#: The ConfigMap with the template of every node's prediction, and where it may be: Crane's newer
#: place first. Each node's prediction is in the same namespace as the template.
TEMPLATE_NAME = "noderesource-tsp-template"
TEMPLATE_NAMESPACES = ("crane-system", "default")
TEMPLATE_KEY = "spec"


def node_prediction_name(node: str) -> str:
    """The TimeSeriesPrediction of a node."""
    return f"noderesource-{node}"


class SeriesLabel(msgspec.Struct, frozen=True, omit_defaults=True):
    """A label of the series."""

    name: Annotated[str, Meta(max_length=1024, description="Its name.")] = ""
    value: Annotated[str, Meta(max_length=4096, description="Its value.")] = ""


class PredictedSample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value."""

    value: Annotated[str, Meta(max_length=64, description="The value, with five decimals.")] = ""
    timestamp: Annotated[LongNumber, Meta(description="Its time, in seconds since 1970.")] = 0


class PredictedSeries(msgspec.Struct, frozen=True, omit_defaults=True):
    """One series and its coming values."""

    labels: Annotated[
        tuple[SeriesLabel, ...], Meta(description="The series' labels.", max_length=256)
    ] = ()
    samples: Annotated[
        tuple[PredictedSample, ...], Meta(description="The values, in the order of time.")
    ] = ()


_TIME = {"format": "date-time"}


class PredictedMetric(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What came out for one metric. Crane has the first three fields."""

    ready: Annotated[bool, Meta(description="Whether the samples reach to the window's end.")]
    resource_identifier: Annotated[str, Meta(max_length=253, description="The metric.")] = ""
    prediction: Annotated[
        tuple[PredictedSeries, ...], Meta(description="The predicted series.", max_length=256)
    ] = ()
    estimator: Annotated[
        str,
        Meta(max_length=253, description="What the samples are from, such as fft or percentile."),
    ] = ""
    estimator_since: Annotated[
        str,
        Meta(extra_json_schema=_TIME, description="Since when it is that estimator."),
    ] = ""
    last_day_error: Annotated[
        str,
        Meta(
            max_length=64,
            description="How far this estimator was off on the last day, when it was given only "
            "what came before: the mean distance as a share of the mean value. Empty where the "
            "history is too short.",
        ),
    ] = ""
    predicted_at: Annotated[
        str, Meta(extra_json_schema=_TIME, description="When the samples were predicted.")
    ] = ""
    message: Annotated[
        str,
        Meta(
            max_length=4096,
            description="Why it is not ready, why the samples are old, or why it is another "
            "estimator than the one that was asked for.",
        ),
    ] = ""


class PredictionStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What came out."""

    prediction_metrics: Annotated[
        tuple[PredictedMetric, ...], Meta(description="By metric.", max_length=64)
    ] = ()
    conditions: Annotated[
        tuple[PolicyCondition, ...],
        Meta(
            description="Ready: every metric could be predicted.",
            max_length=16,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()


#: The one condition, and its reasons.
READY = "Ready"
PREDICT_SUCCEED, PREDICT_PARTIAL, PREDICT_FAILED = (
    "PredictSucceed",
    "PredictPartial",
    "PredictFailed",
)


_LONG_TEXT = Annotated[str, Meta(max_length=16384)]


class TargetRef(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The object that the metrics are about."""

    name: Annotated[str, Meta(min_length=1, max_length=253, description="Its name.")]
    kind: Annotated[Text, Meta(description="Its kind, such as Node or Deployment.")] = ""
    namespace: Annotated[Text, Meta(description="Its namespace, where it has one.")] = ""
    api_version: Annotated[Text, Meta(description="Its API version, such as apps/v1.")] = ""
    uid: Annotated[Text, Meta(description="Accepted, has no effect.")] = ""
    resource_version: Annotated[Text, Meta(description="Accepted, has no effect.")] = ""
    field_path: Annotated[Text, Meta(description="Accepted, has no effect.")] = ""


class QueryType(enum.Enum):
    """Which of the three queries counts."""

    RESOURCE = "ResourceQuery"
    METRIC = "MetricQuery"
    EXPRESSION = "ExpressionQuery"


class QueryResource(enum.Enum):
    CPU = "cpu"
    MEMORY = "memory"


class ExpressionQuery(msgspec.Struct, frozen=True, omit_defaults=True):
    """A query in the language of the metrics' store."""

    expression: Annotated[_LONG_TEXT, Meta(description="PromQL.", min_length=1)]


class LabelOperator(enum.Enum):
    """PromQL's four, and `in` for any of several values."""

    EQUAL = "="
    NOT_EQUAL = "!="
    MATCH = "=~"
    NOT_MATCH = "!~"
    IN = "in"


class LabelCondition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A condition on a label of a series."""

    key: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=253,
            pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*\Z",
            extra={BOUND: "a label's name such as instance"},
            description="The label.",
        ),
    ]
    operator: Annotated[LabelOperator, Meta(description="How it is compared.")]
    value: Annotated[
        tuple[Text, ...],
        Meta(
            description="What it is compared with: with in any of these, otherwise one.",
            min_length=1,
            max_length=32,
        ),
    ]


class MetricQuery(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A metric by its name and labels; its series are added up."""

    metric_name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=253,
            pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*\Z",
            extra={BOUND: "a metric's name such as node_load1"},
            description="The metric's name.",
        ),
    ]
    labels: Annotated[
        tuple[LabelCondition, ...], Meta(description="Conditions on its labels.", max_length=32)
    ] = ()


class MaxValueEstimator(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The largest value of each time of the period."""

    margin_fraction: Annotated[
        Decimal | None, Meta(description="What is added, as a fraction.")
    ] = None


class FftEstimator(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The strongest waves of the past periods."""

    margin_fraction: Annotated[
        Decimal | None, Meta(description="What is added, as a fraction.")
    ] = None
    low_amplitude_threshold: Annotated[
        Decimal | None, Meta(description="Waves below it are left out; in the metric's unit.")
    ] = None
    high_frequency_threshold: Annotated[
        Decimal | None, Meta(description="Weak waves above it are left out; in Hz.")
    ] = None
    min_num_of_spectrum_items: Annotated[
        Number | None, Meta(description="As many waves are kept at least.")
    ] = None
    max_num_of_spectrum_items: Annotated[
        Number | None, Meta(description="As many waves are kept at most.")
    ] = None


class Estimators(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The estimators that are tried; the one with the least error is used."""

    max_value: Annotated[
        tuple[MaxValueEstimator, ...], Meta(description="By largest value.", max_length=32)
    ] = ()
    fft: Annotated[tuple[FftEstimator, ...], Meta(description="By waves.", max_length=32)] = ()


class Dsp(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Finds a period in the past and continues it."""

    sample_interval: Annotated[Duration | None, Meta(description="Time between samples.")] = None
    history_length: Annotated[Duration | None, Meta(description="How far to look back.")] = None
    estimators: Estimators | None = None


class Histogram(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The buckets of a percentile."""

    max_value: Annotated[Decimal | None, Meta(description="Values above it count as it.")] = None
    epsilon: Annotated[Decimal | None, Meta(description="Weights below it count as none.")] = None
    half_life: Annotated[
        Duration | None, Meta(description="After this time a sample counts half.")
    ] = None
    bucket_size: Annotated[Decimal | None, Meta(description="Of buckets that are all alike.")] = (
        None
    )
    first_bucket_size: Annotated[Decimal | None, Meta(description="Of buckets that grow.")] = None
    bucket_size_growth_ratio: Annotated[
        Decimal | None, Meta(description="By how much each bucket is larger than the one before.")
    ] = None


class Percentile(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A percentile of the past."""

    aggregated: Annotated[bool | None, Meta(description="One result for all series.")] = None
    history_length: Annotated[Duration | None, Meta(description="How far to look back.")] = None
    sample_interval: Annotated[Duration | None, Meta(description="Time between samples.")] = None
    min_sample_weight: Annotated[Decimal | None, Meta(description="Of a sample, at least.")] = None
    margin_fraction: Annotated[
        Decimal | None, Meta(description="What is added, as a fraction.")
    ] = None
    target_utilization: Annotated[
        Decimal | None, Meta(description="What the result is divided by.")
    ] = None
    percentile: Annotated[Decimal | None, Meta(description="Such as '0.99'.")] = None
    histogram: Histogram | None = None


class Adaptive(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Several guesses of the coming peak, each with a margin learnt from its own past errors."""

    sample_interval: Annotated[
        Duration | None, Meta(description="Time between samples. Without it: 60s.")
    ] = None
    history_length: Annotated[
        Duration | None, Meta(description="How far to look back. Without it: 3d.")
    ] = None


class AlgorithmType(enum.Enum):
    """Crane's two, and ours."""

    DSP = "dsp"
    PERCENTILE = "percentile"
    ADAPTIVE = "adaptive"


class Algorithm(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """How the metric is predicted."""

    algorithm_type: Annotated[
        AlgorithmType, Meta(description="Which one counts. Crane does not know adaptive.")
    ]
    dsp: Dsp | None = None
    percentile: Percentile | None = None
    adaptive: Adaptive | None = None


class PredictionMetric(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One metric, its query and its algorithm."""

    resource_identifier: Annotated[
        str, Meta(min_length=1, max_length=253, description="Its name, once in this object.")
    ]
    type: Annotated[QueryType, Meta(description="Which query counts; it must be there.")]
    algorithm: Algorithm
    resource_query: Annotated[
        QueryResource | None, Meta(description="The resource of the target, by name.")
    ] = None
    expression_query: ExpressionQuery | None = None
    metric_query: MetricQuery | None = None


class PredictionTemplate(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What the ConfigMap noderesource-tsp-template holds: a prediction for no object yet."""

    prediction_metrics: Annotated[
        tuple[PredictionMetric, ...],
        Meta(description="What is predicted.", min_length=1, max_length=64),
    ]
    prediction_window_seconds: Annotated[
        int, Meta(ge=600, le=2**31 - 1, description="How far to predict, in seconds.")
    ]


class TimeSeriesPredictionSpec(
    PredictionTemplate, frozen=True, omit_defaults=True, rename="camel", kw_only=True
):
    """What is predicted, and how."""

    target_ref: TargetRef


class TimeSeriesPrediction(KubernetesObject, frozen=True):
    """A prediction of metrics from their past."""

    spec: TimeSeriesPredictionSpec
    status: PredictionStatus | None = None
