"""Why a pod can't do its work: one family of causes a file, each a check of the same signature."""
