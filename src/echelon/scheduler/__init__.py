"""The scheduler: carries out what the engine decides on a changing cluster.

informers → intake (view, forest) → queue of roots → loop: take → decide → assume → bind, evict or report why
"""
