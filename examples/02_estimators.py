"""Any features, a few labels: CIPA as a scikit-learn classifier, in a pipeline, tuned by a grid search.

    python examples/02_estimators.py

1,797 handwritten digits of 8 × 8 pixels; a few of each class have a label, a third is kept away as new rows.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from protoadapt import CIPAClassifier, ProtoNetClassifier, labelled_folds

X, truth = load_digits(return_X_y=True)
X, new, truth, new_truth = train_test_split(X, truth, test_size=1 / 3, stratify=truth, random_state=0)


def some_labels(each: int, seed: int) -> np.ndarray:
    """The labels of a few rows of each class; -1 marks the rows without."""
    rng = np.random.default_rng(seed)
    y = np.full(len(truth), -1)
    for digit in range(10):
        y[rng.choice(np.flatnonzero(truth == digit), each, replace=False)] = digit
    return y


# What the unlabelled rows are worth. Two labels a class are a matter of luck, so: the mean of ten draws.
pixels = MinMaxScaler()
for name, model in {
    "ProtoNet, which learns from labels only": make_pipeline(pixels, ProtoNetClassifier()),
    "CIPA, which learns from all rows": make_pipeline(pixels, CIPAClassifier()),
}.items():
    here, there = [], []
    for seed in range(10):
        y = some_labels(2, seed)
        model.fit(X, y)
        here.append((model[-1].transduction_ == truth)[y == -1].mean())
        there.append(model.score(new, new_truth))
    print(f"{name:40s} unlabelled rows {np.mean(here):.1%}, new rows {np.mean(there):.1%} right")

# Settings chosen on the labelled rows. Folds test those only, and always train with the unlabelled ones.
y = some_labels(5, seed=0)
search = GridSearchCV(
    make_pipeline(pixels, CIPAClassifier()),
    {"cipaclassifier__tau": [5.0, 10.0, 20.0], "cipaclassifier__power": ["auto", "off"]},
    cv=labelled_folds(y),
)
search.fit(X, y)
print(f"five labels a class, chosen {search.best_params_}: new rows {search.score(new, new_truth):.1%} right")

# One row alone is answered from what was fitted. The doubtful rows are those worth a look, or a label.
print("one new row:", search.predict(new[:1]), "with probability", search.predict_proba(new[:1]).max().round(3))
model = search.best_estimator_[-1]
margin = model.two_best_proba_[:, 0] - model.two_best_proba_[:, 1]
for row in margin.argsort()[:3]:
    first, second = model.classes_[model.two_best_[row]]
    print(f"row {row}: {first} or {second}? It is {truth[row]}")
