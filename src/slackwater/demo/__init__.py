"""The demo: a service, a hog and the agent side by side on this machine, measured and drawn."""
