"""One file per verb of the API."""
