"""What is kept in step with the spec while a JobSet goes on: its Service, its volume claims, the size of its Jobs."""
