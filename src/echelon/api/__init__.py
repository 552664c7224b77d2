"""The Kubernetes vocabulary as pure data and functions: kinds, schemas, rules, patches, selectors, verbs."""
