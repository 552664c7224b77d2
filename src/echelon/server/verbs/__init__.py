"""The verbs of the API over the store, one file each."""
