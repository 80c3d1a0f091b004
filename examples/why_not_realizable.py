"""
A data set that is not realizable, and why
==========================================

The same sentence is seen with two next tokens, so under its query two tokens are each above the
other. The report names the sentences, the reference gives both tokens one value, and training finds
the attention that serves the conflict best.
"""

import matplotlib.pyplot as plt

from sklntp import NTPTransformerClassifier
from sklntp.inspection import PartialOrderDisplay
from sklntp.structure import check_realizable

# %%
# Each token alone says what follows it. "a", "b" is then seen with "b" and with "c", 3 to 1; "d"
# loses against "a" without a conflict.
X = [["a"], ["b"], ["c"], ["d"], ["a", "b"], ["a", "b"], ["d", "a", "b"]]
y = ["b", "c", "d", "a", "b", "c", "b"]
weight = [1, 1, 1, 1, 3, 1, 1]

# %%
# Which conditions fail, and which sentences show it.
print(check_realizable(X, y, sample_weight=weight))

# %%
# The order under the query "b": "a" and "b" form a cycle, and both are above "d".
clf = NTPTransformerClassifier(step_size=0.1, step_schedule="invscaling", max_iter=3000)
clf.fit(X, y, sample_weight=weight)
PartialOrderDisplay.from_estimator(clf, query="b")
plt.show()

# %%
# Training ends with attention on both tokens of the cycle, more on the one more often right.
print("attention of a, b:", clf.attention([["a", "b"]])[0].round(3))
print("p(b), p(c):", clf.predict_proba([["a", "b"]])[0, 1:3].round(3))
