"""Packing of groups into domains and of pods onto nodes, level by level."""
