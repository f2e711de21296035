"""The groups of the kubelet's tree: how they are named, found and read."""
