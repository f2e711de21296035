"""NRI, the interface by which containerd and CRI-O ask plugins about a container before it starts.

Frames, calls and the few messages that the agent needs, read and written by hand (docs/adr/0032).
"""
