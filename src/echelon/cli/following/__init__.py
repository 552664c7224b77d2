"""`echelon run`: reads manifests, follows them to their end, draws where the pods ran."""
