"""The life of one pod: its sandbox, its containers, their probes, and what its status says about them."""
