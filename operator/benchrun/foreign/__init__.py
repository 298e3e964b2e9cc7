"""Result files of other tools: what they say, in our words, and what our rules find in it."""
