"""QoS ensurance: rules about a node's quality, and what is done while one is broken."""
