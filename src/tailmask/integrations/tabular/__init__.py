"""A small network for rows of features, and what a fit of it needs: the estimator's inside, torch only."""
