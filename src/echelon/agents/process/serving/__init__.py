"""Pods on this machine as the API server asks for them: `api.running_pods` over `local_pods`."""
