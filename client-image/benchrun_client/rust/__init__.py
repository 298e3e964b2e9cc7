"""vLLM's Rust client (`vllm-rs bench serve`) as a load engine: a process of its own for every load.

It takes the place of `engine.Engine`: our prompts go to it in a file, in our order and with our lengths, and its result comes
back under the same names. What it does not tell is left empty, for the judge to see: when a request was due, and how late its
threads came to what was.
"""
