"""The HTTP face: from requests to `api.verbs.Verbs` and back to bytes; `application` is where to begin reading."""
