"""What `sessions.py` is made of."""
