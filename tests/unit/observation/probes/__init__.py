"""Tests of slackwater.observation.probes."""
