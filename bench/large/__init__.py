"""A plane with very many objects: memory, start, lists, pages and what others notice of them."""
