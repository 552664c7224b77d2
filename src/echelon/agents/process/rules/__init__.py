"""What a kubelet decides, as pure functions of a pod, the records of its containers and the time."""
