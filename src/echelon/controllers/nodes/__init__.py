"""Controllers of nodes: health, taints, evictions, pods whose node is gone."""
