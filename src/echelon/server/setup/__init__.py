"""What a server needs before its first request: certificates, a kubeconfig, namespaces and priority classes."""
