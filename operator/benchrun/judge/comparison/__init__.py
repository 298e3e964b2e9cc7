"""Two configurations side by side: what changed, by how much, and whether that is more than noise. Pure.

`runs` -> `comparability` (may they be compared at all) -> `figures` (a figure and its noise) -> `words` (change, interval, word)
-> `gate` and `sentence`; `compare` puts them together.
"""
