"""Learners on one matrix of encoded rows: `linear`, `trees` and `boost`, and the files of their models.

Networks are in `learners.network_learner`; folds, thresholds and ensembles are one folder up.
"""
