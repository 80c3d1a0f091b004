"""
Choosing the step size by GridSearchCV
======================================

A normalized step moves a matrix by the step size, whatever the gradient: t steps of eta reach a
norm of at most eta t. On realizable data any step size that goes far enough serves. Where some next
tokens are wrong, going further makes the model too sure: the log-loss of unseen sentences grows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp
from sklntp.metrics import neg_log_loss
from sklntp.model_selection import UnseenSentenceKFold

# %%
# Realizable data, and the same with wrong next tokens for a tenth of the sentences of two or more.
data = make_realizable_ntp(20, 300, max_length=5, random_state=0)
rng = np.random.default_rng(0)
wrong = (np.array([len(sentence) for sentence in data.X]) > 1) & (rng.random(len(data.X)) < 0.1)
noisy = np.where(wrong, rng.permutation(data.y), data.y)


# %%
# A search may say which candidate it takes: here the smallest of those as good as the best, within
# its standard error.
def smallest_good(results):
    """The index of the candidate, of ascending step sizes."""
    score, spread = results["mean_test_score"], results["std_test_score"]
    best = np.argmax(score)
    return int(np.argmax(score >= score[best] - spread[best] / np.sqrt(cv.n_splits)))


# %%
# 200 steps per stage; no sentence is both in a training fold and in its test fold.
cv = UnseenSentenceKFold(3, shuffle=True, random_state=0)
step_sizes = np.geomspace(0.01, 10, 10).round(3)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, y, color, style in [
    ("one next token in ten wrong", noisy, "#D55E00", "s--"),
    ("realizable", data.y, "#0072B2", "o-"),
]:
    clf, grid = NTPTransformerClassifier(max_iter=200), {"step_size": step_sizes}
    search = GridSearchCV(clf, grid, scoring=neg_log_loss, refit=smallest_good, cv=cv)
    found = search.fit(data.X, y).cv_results_
    mean, spread = -found["mean_test_score"], found["std_test_score"]
    chosen = search.best_index_
    ax.errorbar(step_sizes, mean, spread, fmt=style, color=color, capsize=3, label=name)
    ax.plot(step_sizes[chosen], mean[chosen], "o", color=color, ms=14, mfc="none", mew=2)
    print(f"{name}: chosen {step_sizes[chosen]}, log-loss {mean[chosen]:.3f}")
ax.set(xscale="log", yscale="log", xlabel="step size of 200 steps per stage")
ax.set_ylabel("log-loss of unseen sentences,\nmean and spread of the folds")
ax.legend(title="large ring: chosen")
plt.show()
