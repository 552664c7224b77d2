"""Setup of a server: certificates, kubeconfig, initial namespaces and priority classes."""
