"""Measurements against the plain loop, as ratios of one run."""
