"""The patch languages of the API."""
