"""Reading API objects: metadata, names, selectors, well-known keys, built-in runtimes."""
