"""Pure: what the kernel will accept, and in which order."""
