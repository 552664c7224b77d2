"""The node side: runs bound pods and reports their status; here simulated nodes only."""
