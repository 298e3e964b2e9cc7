"""Rules that look for what makes a measurement invalid or suspect: one family a file, with the text
of its codes."""
