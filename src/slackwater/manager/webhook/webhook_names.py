"""Names that the chart and the webhook share: charts/slackwater/templates/manager-webhook.yaml."""

#: As Koordinator's.
PATH = "/mutate-node-status"
SERVICE = "slackwater-webhook"
SECRET = "slackwater-webhook"  # noqa: S105 - a Secret's name
#: The MutatingWebhookConfiguration, and the one webhook in it.
CONFIGURATION = "slackwater-manager"
WEBHOOK = "nodes.slackwater.io"
