"""Probe, plan and the media child."""
