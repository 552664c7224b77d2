"""Decisions about kinds that keep pods running: ReplicaSet, ReplicationController, Deployment."""
