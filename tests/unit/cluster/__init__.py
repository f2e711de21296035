"""The manager and the cluster at a glance."""
