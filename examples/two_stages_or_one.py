"""
Two stages, or both matrices at once
====================================

With the same step size and the same number of steps, training both matrices at once lowers the loss
faster, and pays for it with attention: the direction of W_kq stays behind.
"""

import matplotlib.pyplot as plt

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp

# %%
# 400 steps in all: half for each stage, or all for both matrices together.
data = make_realizable_ntp(20, 100, max_length=5, random_state=0)
two = NTPTransformerClassifier(max_iter=200, track_alignment=True).fit(data.X, data.y)
one = NTPTransformerClassifier(stages=("joint",), max_iter=400, track_alignment=True)
one.fit(data.X, data.y)

# %%
# Loss on all sentences, and the distance of W_kq from its reference; the two-stage training comes
# to both after its first 200 steps.
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
kq, joint = two.convergence_["kq"], one.convergence_["joint"]
for ax, name, of_joint in zip(axes, ("loss", "dist"), ("loss", "dist_kq"), strict=True):
    ax.plot(range(200, 401), kq[name], color="#0072B2", label="two stages (second)")
    ax.plot(joint[of_joint], color="#D55E00", linestyle="--", label="both at once")
    ax.set(xlabel="steps in all", yscale="log")
    ax.legend()
axes[0].set(ylabel="training loss", title="The loss: both at once is ahead")
axes[1].set(ylabel="distance of $W_{kq}$ from its reference", title="The direction: two stages are")
plt.show()

# %%
# Sentences that were held back.
for name, clf in (("two stages", two), ("both at once", one)):
    print(f"{name}: {clf.score(data.X_unseen, data.y_unseen):.3f} of unseen sentences right")
