"""Wiring: configuration, clocks, start and stop.  The only package that may import all others."""
