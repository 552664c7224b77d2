"""The image: put together from Debian packages and wheels, without a registry and without a container engine.

`contents` says what is in it, `debian` and `wheels` fetch, `layers` makes the three trees, `archive` packs them so
that equal trees are equal bytes, `layout` writes the OCI layout.  Needs nothing but Python's own library and pip, so
`deploy/Dockerfile` runs the same code.
"""
