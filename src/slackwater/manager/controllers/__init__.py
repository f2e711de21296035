"""The manager's controllers: each a pure function from the cluster to what should be applied."""
