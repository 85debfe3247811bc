"""Partial Label Masking in scikit-learn: does it help on these data, at 0.5 and with tuned thresholds?

    python examples/sklearn_grid_search.py

PLM has the form that we recommend: a tenth of the rows is held out and moves the ratios. The same rows tune
thresholds, and PLM has to beat those. Differences of a point or less are chance here.
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

options = {"max_epochs": 20, "learning_rate": 3e-3, "hidden_layer_sizes": (256,), "random_state": 0}
search = GridSearchCV(
    make_pipeline(StandardScaler(), PLMClassifier(adapt="prevalence", **options)),
    {
        "plmclassifier__rate": [0.0, None],  # 0: plain perceptron; None: chosen for the number of epochs
        "plmclassifier__thresholds": [0.5, "tuned"],
    },
    scoring="f1_macro",
    cv=2,
)
search.fit(X, Y)

for choice, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    rate, thresholds = choice.values()
    print(f"rate {rate!s:<4}  thresholds {thresholds!s:<5}  mean F1 of the folds {score:.3f}")
plain = make_pipeline(StandardScaler(), PLMClassifier(rate=0.0, **options)).fit(X, Y)
for name, model in {"plain perceptron": plain, "best of the search": search}.items():
    f1 = f1_score(Y_test, model.predict(X_test), average="macro", zero_division=0)
    print(f"{name:<18}  mean F1 of the test set {f1:.3f}")
