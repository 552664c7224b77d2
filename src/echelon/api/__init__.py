"""The Kubernetes API as pure data and functions: kinds, schemas, rules, admission, patches, selectors, verbs."""
