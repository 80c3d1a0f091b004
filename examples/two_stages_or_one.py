"""
Two stages, or both matrices at once
====================================

With the same step size and the same number of steps, training both matrices at once lowers the loss
faster, and pays for it with attention: while steps are few, fewer unseen sentences are predicted,
and with many the direction of W_kq falls behind.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp

# %%
# The same number of steps in all: half for each stage, or all for both matrices together.
steps = [50, 100, 200, 400, 800]
trainings = {
    "two stages": [{"max_iter": n // 2} for n in steps],
    "both at once": [{"max_iter": n, "stages": ("joint",)} for n in steps],
}


def measure(data, params):
    """Training loss, distance of W_kq from its reference, accuracy on unseen sentences."""
    clf = NTPTransformerClassifier(track_alignment=True, **params).fit(data.X, data.y)
    *_, last = clf.convergence_.values()
    dist = last["dist_kq" if "joint" in clf.stages else "dist"]
    return last["loss"][-1], dist[-1], clf.score(data.X_unseen, data.y_unseen)


# %%
# Three data sets, one line each.
fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for (name, all_params), color, style in zip(
    trainings.items(), ("#0072B2", "#D55E00"), ("o-", "s--"), strict=True
):
    for seed in range(3):
        data = make_realizable_ntp(20, 100, max_length=5, random_state=seed)
        results = np.transpose([measure(data, params) for params in all_params])
        for ax, values in zip(axes, results, strict=True):
            ax.plot(steps, values, style, color=color, label=name if seed == 0 else None)
        print(f"{name:12}  data {seed}  unseen accuracy", results[2].round(2))
titles = ["training loss", "distance of $W_{kq}$ from its reference", "accuracy, unseen sentences"]
for ax, title in zip(axes, titles, strict=True):
    ax.set(title=title, xlabel="steps in all", xscale="log")
    ax.set_xticks(steps, steps)
    ax.minorticks_off()
axes[0].set_yscale("log")
axes[1].set_ylim(bottom=0)
axes[0].legend()
plt.show()
