"""What runs beside the pods: one small process per pod, and one that holds their network.  Only the standard library."""
