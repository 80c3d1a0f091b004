"""
Choosing the step size by GridSearchCV
======================================

A normalized step moves a matrix by the step size, whatever the gradient: after t steps of eta the
norm is at most eta t. On realizable data any step size that goes far enough is as good as another;
where next tokens conflict, large steps overshoot.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp
from sklntp.metrics import neg_log_loss
from sklntp.model_selection import UnseenSentenceKFold

# %%
# Realizable data, and the same with one next token in five replaced at random.
data = make_realizable_ntp(20, 400, max_length=5, random_state=0)
rng = np.random.default_rng(0)
noisy = np.where(rng.random(len(data.y)) < 0.2, rng.permutation(data.y), data.y)
step_sizes = np.geomspace(1e-3, 10, 9)

# %%
# 200 steps per stage; folds never share a sentence.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharex=True, layout="constrained")
for ax, (title, y) in zip(axes, {"realizable": data.y, "noisy": noisy}.items(), strict=True):
    clf = NTPTransformerClassifier(max_iter=200)
    cv = UnseenSentenceKFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(clf, {"step_size": step_sizes}, scoring=neg_log_loss, cv=cv)
    found = search.fit(data.X, y).cv_results_
    mean, spread = -found["mean_test_score"], found["std_test_score"]
    ax.errorbar(step_sizes, mean, spread, marker="o", color="#0072B2", capsize=3)
    best = search.best_params_["step_size"]
    ax.axvline(best, color="#D55E00", linestyle="--", label=f"chosen: {best:.3g}")
    ax.set(xscale="log", xlabel="step size", ylabel="log-loss of unseen sentences", title=title)
    ax.legend()
    print(f"{title}: step size {best:.3g}, log-loss {-search.best_score_:.3f}")
plt.show()
