"""What `docs/code` is made of."""
