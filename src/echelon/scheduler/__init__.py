"""The scheduler: makes what the engine decides true on a changing cluster.

informers → translate (view, forest) → queue of roots → loop: take → decide → assume → apply (bind, evict, say why)
"""
