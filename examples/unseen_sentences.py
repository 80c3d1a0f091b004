"""
What training determines of sentences it never saw
==================================================

Under its query each token of a sentence has a role, and attention learns to rank optimal above
non-comparable above non-optimal tokens. Wherever that singles out one next token, it is predicted.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp
from sklntp.metrics import generalization_report

# %%
# A model of realizable data, asked about random sentences.
data = make_realizable_ntp(20, 300, random_state=0)
clf = NTPTransformerClassifier(max_iter=2000).fit(data.X, data.y)
rng = np.random.default_rng(0)
sentences = [rng.integers(20, size=rng.integers(2, 6)).tolist() for _ in range(1000)]
report = generalization_report(clf, sentences)
print(report)

# %%
# Scores of all tokens that meet in these sentences, W_kq[x, q], by role under their query.
roles = ["optimal", "non-comparable", "non-optimal"]
scores = {role: [] for role in roles}
for explanation in map(clf.explain, sentences[:300]):
    query = np.searchsorted(clf.vocabulary_, explanation.query)
    column = clf.coef_kq_[:, query]
    for token, role in zip(explanation.token, explanation.role, strict=True):
        scores[role].append(column[np.searchsorted(clf.vocabulary_, token)])

# %%
# The three roles do not overlap: that is why the answers of the theory are those of the model.
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.boxplot([scores[role] for role in roles], vert=False, whis=(0, 100))
ax.set_yticks([1, 2, 3], [f"{role}\n({len(scores[role])} tokens)" for role in roles])
ax.set_xlabel("score $W_{kq}[x, q]$ after 2,000 steps (box: quartiles, whiskers: all)")
determined = [answer is not None for answer in report.determined]
ax.set_title(
    f"{np.count_nonzero(determined)} of {len(sentences)} random sentences are determined,\n"
    f"{np.count_nonzero(report.correct[determined])} of these are predicted"
)
plt.show()
