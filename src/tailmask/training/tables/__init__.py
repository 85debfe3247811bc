"""The small training loop for tables, which the commands and the estimators share. No Lightning here."""
