"""Models on raw rows as ONNX programs: encoders, learners, folds, ensembles. Single networks are not here."""
