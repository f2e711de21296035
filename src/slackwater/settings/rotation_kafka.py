"""Settings of one workload's Kafka lag: whether it counts, whose it is, and how to reach brokers.

Owns their bounds and their prose. The defaults are the Structs' in settings.rotation.
"""

from slackwater.settings import rotation_shapes as shapes
from slackwater.settings.bound import Bound, Unit
from slackwater.settings.choice import Choice, Flag
from slackwater.settings.rebalancer import (
    KafkaProtocol,
    KafkaSettings,
    LagMode,
    LagSum,
    SaslMechanism,
)
from slackwater.settings.rotation_entry import Entry, Scope
from slackwater.settings.wording import Listing, Wording

_KAFKA = KafkaSettings()
_ACCESS = _KAFKA.access

_LAG = (
    Entry(
        Flag(
            "kafka.lagEnabled", _KAFKA.enabled,
            "Whether the consumer group's lag has a say before pods go.",
        ),
        ("kafka", "enabled"), Scope.WORKLOAD,
    ),
    Entry(
        Bound(
            "kafka.lagThreshold", _KAFKA.threshold, 0, None, Unit.COUNT,
            "In messages. 1000 is little for a busy topic: eight partitions with 150 each are "
            "above it for ever.",
        ),
        ("kafka", "threshold"), Scope.WORKLOAD,
    ),
    Entry(
        Choice(
            "kafka.lagMode", _KAFKA.mode.value, tuple(word.value for word in LagMode),
            "Whether lag above the threshold forbids a rotation, or is what it takes. Lag that is "
            "not known forbids it in either case.",
        ),
        ("kafka", "mode"), Scope.WORKLOAD, LagMode,
    ),
    Entry(
        Choice(
            "kafka.lagAggregation", _KAFKA.aggregate.value, tuple(word.value for word in LagSum),
            "How the partitions' lags become one number.",
        ),
        ("kafka", "aggregate"), Scope.WORKLOAD, LagSum,
    ),
    Entry(
        Wording(
            "kafka.consumerGroup", _KAFKA.group, shapes.GROUP,
            "Whose lag counts.",
        ),
        ("kafka", "group"), Scope.IDENTITY, otherwise="the workload's name",
    ),
    Entry(
        Wording(
            "kafka.topic", _KAFKA.topic, shapes.TOPIC,
            "Only this topic's partitions count.",
        ),
        ("kafka", "topic"), Scope.IDENTITY, otherwise="all that the group reads",
    ),
    Entry(
        Wording(
            "kafka.lagQuery", _KAFKA.query, shapes.QUERY,
            "PromQL in place of the exporter's metric. Each series that it gives is one partition.",
        ),
        ("kafka", "query"), Scope.IDENTITY, otherwise="kafka_consumergroup_lag of the group",
    ),
    Entry(
        Listing(
            "kafka.bootstrapServers", shapes.BROKER,
            "Brokers to ask directly. Needs the extra slackwater[kafka].",
        ),
        ("kafka", "bootstrap_servers"), Scope.WORKLOAD, otherwise="none: Prometheus is asked",
    ),
)  # fmt: skip


_BROKERS = (
    Entry(
        Choice(
            "kafka.protocol", _ACCESS.protocol.value, tuple(word.value for word in KafkaProtocol),
            "What is spoken to the brokers, by Kafka's own names.",
        ),
        ("kafka", "access", "protocol"), Scope.WORKLOAD, KafkaProtocol,
    ),
    Entry(
        Wording(
            "kafka.caFile", _ACCESS.ca_file, shapes.FILE,
            "Certificates that a broker's is checked against, in place of the machine's own.",
        ),
        ("kafka", "access", "ca_file"), Scope.WORKLOAD,
    ),
    Entry(
        Wording(
            "kafka.certificateFile", _ACCESS.certificate_file, shapes.FILE,
            "A client certificate for the brokers; needs keyFile.",
        ),
        ("kafka", "access", "certificate_file"), Scope.WORKLOAD,
    ),
    Entry(
        Wording(
            "kafka.keyFile", _ACCESS.key_file, shapes.FILE,
            "That certificate's key.",
        ),
        ("kafka", "access", "key_file"), Scope.WORKLOAD,
    ),
    Entry(
        Choice(
            "kafka.saslMechanism", _ACCESS.mechanism.value,
            tuple(word.value for word in SaslMechanism),
            "How the brokers are told who asks, where the protocol is one of SASL's.",
        ),
        ("kafka", "access", "mechanism"), Scope.WORKLOAD, SaslMechanism,
    ),
    Entry(
        Wording(
            "kafka.username", _ACCESS.username, shapes.PLAIN,
            "For SASL.",
        ),
        ("kafka", "access", "username"), Scope.WORKLOAD,
    ),
    Entry(
        Wording(
            "kafka.passwordFile", _ACCESS.password_file, shapes.FILE,
            "A file with SASL's password.",
        ),
        ("kafka", "access", "password_file"), Scope.WORKLOAD,
    ),
)  # fmt: skip

KAFKA: tuple[Entry, ...] = (*_LAG, *_BROKERS)
