"""Placement questions as CP-SAT models."""
