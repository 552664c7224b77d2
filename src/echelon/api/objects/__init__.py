"""Parts of API objects: metadata, name formats, selectors, well-known keys, built-in runtimes."""
