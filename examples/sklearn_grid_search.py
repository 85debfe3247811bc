"""Partial Label Masking in scikit-learn: does it help on these data, and how fast should the ratios move?

python examples/sklearn_grid_search.py
"""

import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tailmask.data import load
from tailmask.integrations.sklearn import PLMClassifier

digits = load("digits")
(X, Y), (X_test, Y_test) = (
    (inputs.flatten(1).numpy(), targets.numpy().astype(int))
    for inputs, targets in (split.batch(torch.arange(len(split))) for split in (digits.train, digits.test))
)

classifier = PLMClassifier(max_epochs=20, learning_rate=3e-3, hidden_layer_sizes=(256,), random_state=0)
search = GridSearchCV(
    make_pipeline(StandardScaler(), classifier),
    {"plmclassifier__rate": [0.0, 0.03, 0.1]},  # 0 is a plain perceptron
    scoring="f1_macro",
    cv=2,
)
search.fit(X, Y)

for rate, score in zip((0.0, 0.03, 0.1), search.cv_results_["mean_test_score"], strict=True):
    print(f"rate {rate:<4}  mean F1 of the folds {score:.3f}")
plain = make_pipeline(StandardScaler(), classifier.set_params(rate=0.0)).fit(X, Y)
for name, model in {"plain perceptron": plain, "best of the search": search}.items():
    f1 = f1_score(Y_test, model.predict(X_test), average="macro", zero_division=0)
    print(f"{name:<18}  mean F1 of the test set {f1:.3f}")
