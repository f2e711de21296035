"""Machines are noisy: no property is about how long an example takes."""

from hypothesis import settings

settings.register_profile("house", deadline=None)
settings.load_profile("house")
