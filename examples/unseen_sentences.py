"""
What training determines of sentences it never saw
==================================================

Under its query each token of a sentence has a role. Attention moves to the highest role that the
sentence has, optimal before non-comparable before non-optimal, also where these tokens never met in
training; so the next token of that role is predicted.
"""

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp
from sklntp.metrics import generalization_report

# %%
# A model of realizable data, asked about sentences that are not among them.
data = make_realizable_ntp(20, 300, random_state=0)
X, y = data.X_unseen, data.y_unseen
clf = NTPTransformerClassifier().fit(data.X, data.y)
report = generalization_report(clf, X, y)
print(report)

# %%
# The same training with fewer steps in the second stage: how much attention each role has.
steps = np.unique(np.geomspace(1, 1000, 13).round().astype(int)).tolist()
attention = Counter()
for t in steps:
    clf.set_params(max_iter=(1000, t)).fit(data.X, data.y)
    for i, weights in enumerate(clf.attention(X)):
        for token, weight in zip(X[i], weights, strict=True):
            attention[report.pattern[i], report.roles[i][token], t] += weight

# %%
# One panel per combination of roles in a sentence.
fig, axes = plt.subplots(2, 2, figsize=(9, 5.6), sharex=True, sharey=True, layout="constrained")
styles = {
    "optimal": {"color": "#0072B2", "marker": "^"},
    "non-comparable": {"color": "#666666", "marker": "o", "linestyle": "--"},
    "non-optimal": {"color": "#E69F00", "marker": "v", "linestyle": ":"},
}
for ax, row in zip(axes.flat, report.summary, strict=True):
    for role in row["pattern"].split(" + "):
        share = [attention[row["pattern"], role, t] / row["sentences"] for t in steps]
        ax.plot(steps, share, **styles[role])
    ax.set_title(f"{row['sentences']} sentences: {row['pattern']}", fontsize="medium")
    ax.set_xscale("log")
for role, style in styles.items():
    axes[0, 0].plot([], [], **style, label=role)
fig.legend(loc="outside upper center", ncols=3)
fig.supxlabel("steps of the second stage")
fig.supylabel("attention on the tokens of a role")
plt.show()
