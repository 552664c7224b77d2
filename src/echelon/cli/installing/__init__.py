"""Commands that put Echelon on a cluster, look whether it fits there, and take it off again."""
