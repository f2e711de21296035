"""Owns the project's workshop: setup, test runs, virtual machines. The product never imports it."""
