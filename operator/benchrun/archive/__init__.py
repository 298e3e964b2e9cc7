"""Archives of ended runs: what they hold, where they are, who writes and who reads them."""
