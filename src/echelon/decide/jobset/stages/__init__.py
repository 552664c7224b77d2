"""Stages of a JobSet: what runs together, what waits for what, and the quota that each stage needs."""
