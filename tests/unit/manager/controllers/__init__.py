"""Controllers: the cluster in, what should be applied out."""
