"""Streams of running pods: logs over plain HTTP; exec, attach and port-forward over WebSockets."""
