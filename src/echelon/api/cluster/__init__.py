"""Cluster files: node pools by topology level, and the nodes they stand for."""
