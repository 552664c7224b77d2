"""The node side: whoever takes bound pods and says what became of them."""
