"""Archives of ended runs: their content, their storage, the job that writes them."""
