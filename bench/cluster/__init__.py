"""`make bench-cluster`: Echelon, kube-scheduler and the limit of the server itself, on a real control plane."""
