"""HTTP: from requests to `api.verbs.Verbs` and back to bytes; start reading at `application`."""
