"""What a decision may ask for (`benchrun.decide.collected`)."""
