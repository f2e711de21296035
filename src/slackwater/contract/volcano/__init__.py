"""Volcano's configuration: of the cluster, of a node, and of a pod."""
