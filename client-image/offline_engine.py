"""Runs `benchrun_client.offline` from wherever this directory was copied to, whatever the image's
own PYTHONPATH is."""

from benchrun_client.offline.__main__ import main

if __name__ == "__main__":
    main()
