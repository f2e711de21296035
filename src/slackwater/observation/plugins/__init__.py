"""Plug-ins for QoS ensurance, each in a process of its own."""
