"""Where prompts come from: one dataset a file, each giving the samples of a whole run at once.

At once, because what matters is between stages: no prompt may meet another of the same run in the
server's prefix cache."""
