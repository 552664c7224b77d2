"""Volumes that are bound when their first pod has a node."""
