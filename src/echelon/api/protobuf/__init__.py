"""Kubernetes' protobuf form of built-in kinds: what kubectl's generators and Go's typed clients send."""
