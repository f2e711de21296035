"""Tests of our own settings."""
