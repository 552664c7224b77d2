"""One handler per verb, and the documents that are no objects: discovery, OpenAPI, health, metrics."""
