"""Admission of pods: their defaults, and what exclusive placement by other schedulers needs."""
