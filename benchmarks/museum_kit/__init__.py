"""What `museum.py` is made of."""
