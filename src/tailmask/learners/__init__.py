"""Everything that can be trained: fits on encoded matrices, learners on raw rows, and cross-fitting of them.

`base` has the protocol. Thresholds and ensembles on out-of-fold outputs live here too; networks do not yet.
"""
