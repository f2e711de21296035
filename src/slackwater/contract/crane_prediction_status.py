"""What came out of a TimeSeriesPrediction, as its readers expect it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane_status import Condition
from slackwater.contract.crane_values import LongNumber


class SeriesLabel(msgspec.Struct, frozen=True):
    """A label of the series."""

    name: Annotated[str, Meta(max_length=1024, description="Its name.")] = ""
    value: Annotated[str, Meta(max_length=4096, description="Its value.")] = ""


class Sample(msgspec.Struct, frozen=True):
    """One value."""

    value: Annotated[str, Meta(max_length=64, description="The value, with five decimals.")] = ""
    timestamp: Annotated[LongNumber, Meta(description="Its time, in seconds since 1970.")] = 0


class PredictedSeries(msgspec.Struct, frozen=True):
    """One series and its coming values."""

    labels: Annotated[
        tuple[SeriesLabel, ...], Meta(description="The series' labels.", max_length=256)
    ] = ()
    samples: Annotated[
        tuple[Sample, ...], Meta(description="The values, in the order of time.")
    ] = ()


class PredictedMetric(msgspec.Struct, frozen=True, rename="camel"):
    """What came out for one metric."""

    ready: Annotated[bool, Meta(description="Whether the samples reach to the window's end.")]
    resource_identifier: Annotated[str, Meta(max_length=253, description="The metric.")] = ""
    prediction: Annotated[
        tuple[PredictedSeries, ...], Meta(description="The predicted series.")
    ] = ()


class PredictionStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What came out."""

    prediction_metrics: Annotated[
        tuple[PredictedMetric, ...], Meta(description="By metric.", max_length=64)
    ] = ()
    conditions: Annotated[
        tuple[Condition, ...],
        Meta(
            description="Ready: every metric could be predicted.",
            max_length=16,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()
