"""The sections of the page, one a file. Each is a function of the sweep; None where there is nothing to say."""
