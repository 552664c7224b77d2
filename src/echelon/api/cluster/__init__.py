"""Cluster files: node pools by topology level, and their Node objects."""
