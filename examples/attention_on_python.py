"""
Attention on Python source
==========================

What follows a token of Python source depends on more than the token: attention finds the earlier
tokens that matter under each query.
"""

import matplotlib.pyplot as plt

from sklntp import NTPTransformerClassifier
from sklntp.datasets import load_python_tokens
from sklntp.inspection import AttentionDisplay
from sklntp.preprocessing import make_contexts

# %%
# Lines of modules of the standard library, cut into contexts of up to eight tokens.
source = load_python_tokens(["bisect", "heapq"])
X, y, _ = make_contexts(source.sequences, max_length=8)
print(f"{len(X)} contexts; for example {X[30]} -> {y[30]}")

# %%
# Decaying steps: the same context has several next tokens.
clf = NTPTransformerClassifier(
    stages=("ov", "kq"), collocation="last", step_size=2.0, step_schedule="linear", max_iter=300
).fit(X, y)
print(f"training accuracy {clf.score(X, y):.3f}")

# %%
# The same last token, after different beginnings: each box is shaded by its attention.
ends = {}
for sentence in X:
    if 5 <= len(sentence) <= 8:
        ends.setdefault(sentence[-1], []).append(sentence)
query = max(ends, key=lambda token: len(ends[token]))
chosen = sorted(ends[query], key=lambda s: -clf.attention([s])[0][:-1].max())
AttentionDisplay.from_estimator(clf, chosen[: 5 * 8 : 8])
plt.show()
