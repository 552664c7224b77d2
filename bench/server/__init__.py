"""`make bench-server`: the API server beside its bare parts and beside kube-apiserver with etcd, row by row."""
