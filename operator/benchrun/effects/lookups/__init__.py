"""What a decision may ask for (`benchrun.decide.lookups`), a file for each kind of question."""
