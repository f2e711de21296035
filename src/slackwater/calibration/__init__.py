"""Measures how fast this machine's CPUs are, and turns measurements into a normalization model."""
