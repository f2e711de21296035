"""A local web page about a cluster or one agent; it reads and never writes."""
