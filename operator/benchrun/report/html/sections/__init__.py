"""The sections of the page, one a file. Each is a function of the run; None where there is nothing
to say."""
