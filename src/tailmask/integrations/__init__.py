"""Partial Label Masking for other libraries. Each module needs the library that it is named after.

======================  =======================================================
`lightning`             `PLMCallback`, for `lightning` and `pytorch_lightning`
`transformers`          `plm_loss` and `PLMTrainerCallback`, for Hugging Face's Trainer
`sklearn`               `PLMClassifier` and `PLMMultiOutputClassifier`, scikit-learn estimators
`tail_classifier`       `TailClassifier`, `tailmask.fit` as a scikit-learn estimator
`resume`                `ResumableState`, for checkpoints in several processes (Accelerate, own loops)
======================  =======================================================
"""
