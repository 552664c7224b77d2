"""Modules without I/O or dependencies: quantities, clocks, seeded random numbers, timestamps, domain paths."""
