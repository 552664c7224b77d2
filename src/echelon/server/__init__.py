"""The embedded API server: the pipeline behind `api.verbs.Verbs` and its HTTPS face."""
