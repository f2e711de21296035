"""Mutated inputs for every reader of foreign text and objects, the same ones for the same seed.

readers.py is the table: what is called with which seeds, and which errors are its contract.
"""
