"""A data set that is not realizable, and what training does with it.

The same sentence is seen with two next tokens, so under its query two tokens are each above the
other. The report names the sentences, the reference gives the two tokens one value, and decaying
steps find the attention that serves the conflict best.
"""

from sklntp import NTPTransformerClassifier
from sklntp.structure import check_realizable, max_margin_kq, partial_orders

# %%
# Each token alone says what follows it. "a", "b" is then seen with "b" and with "c", 3 to 1.
X = [["a"], ["b"], ["c"], ["a", "b"], ["a", "b"]]
y = ["b", "c", "a", "b", "c"]
weight = [1, 1, 1, 3, 1]

# %%
# Which condition fails, and which sentences show it.
print(check_realizable(X, y, sample_weight=weight))
print("pairs under the query 'b':", partial_orders(X, y)["b"].pairs)

# %%
# The reference contracts the cycle: both tokens have one value, and nothing is left to separate.
print("entries of the reference that are not zero:", max_margin_kq(X, y).coef.count_nonzero())

# %%
# Constant steps circle the optimum of the conflict; decaying steps come close to it.
for schedule in ("constant", "invscaling"):
    clf = NTPTransformerClassifier(step_size=0.1, max_iter=3000, step_schedule=schedule)
    clf.fit(X, y, sample_weight=weight)
    last = clf.convergence_["kq"]["loss"][-100:]
    print(f"{schedule}: the last 100 losses lie between {last.min():.6f} and {last.max():.6f}")
