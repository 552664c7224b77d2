"""What runs beside pods: one small process per pod, one that holds their network.  Only the standard library."""
