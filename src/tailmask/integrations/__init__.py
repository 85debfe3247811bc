"""Partial Label Masking in the tools that people already use; each module needs the one that it is named for.

======================  =======================================================
`lightning`             `PLMCallback`, for `lightning` and `pytorch_lightning`
`transformers`          `plm_loss` and `PLMTrainerCallback`, for Hugging Face's Trainer
`sklearn`               `PLMClassifier` and `PLMMultiOutputClassifier`, scikit-learn estimators
`tail_classifier`       `TailClassifier`, what `tailmask.fit` does as a scikit-learn estimator
`resume`                `ResumableState`, for checkpoints in several processes (Accelerate, own loops)
======================  =======================================================
"""
