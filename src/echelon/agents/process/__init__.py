"""Process nodes: pods run as processes on this machine."""
