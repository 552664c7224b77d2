"""`echelon tree`: reads the objects of a namespace, draws one with its children."""
