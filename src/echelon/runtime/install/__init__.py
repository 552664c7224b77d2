"""Puts an installation on a cluster and takes it off again; what it consists of is decided in `deploy`."""
