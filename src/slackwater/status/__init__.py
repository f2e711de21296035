"""The read model of `slackwater status`: the cluster as its API server shows it, fetched once."""
