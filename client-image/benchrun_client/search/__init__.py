"""The search for the highest load that meets the objectives, on one loaded server."""
