"""(sweep, its runs, now) -> what to do. Pure, as the decisions about runs are."""
