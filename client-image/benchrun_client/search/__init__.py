"""The highest load that meets the objectives, found on one loaded server."""
