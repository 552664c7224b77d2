"""What is asked and what is answered: demands, verdicts, and which demands are refused."""
