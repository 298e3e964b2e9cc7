"""The user's command, `benchrun` or `kubectl benchrun`: it reads runs through kubectl and shows
them."""
