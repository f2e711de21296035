"""Tests of foreign objects."""
