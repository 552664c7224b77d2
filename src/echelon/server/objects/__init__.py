"""Objects between requests and the store: decoding, access to the store, cache of decoded objects."""
