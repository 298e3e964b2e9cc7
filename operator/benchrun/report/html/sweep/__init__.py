"""The report of a sweep as one HTML page: made of its status and spec alone, with the blocks and charts of a run's page."""
