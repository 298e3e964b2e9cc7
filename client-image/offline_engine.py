"""A script that runs `benchrun_client.offline` from the directory that it was copied to.

It works whatever the image's own PYTHONPATH is.
"""

from benchrun_client.offline.__main__ import main

if __name__ == "__main__":
    main()
