"""Leaf modules without I/O: exact quantities, time as a parameter, seeded chance, instants as text."""
