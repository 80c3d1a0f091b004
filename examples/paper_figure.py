"""
The paper's figure
==================

On realizable data the direction of both matrices tends to their max-margin references, no slower
than claimed, their norms grow linearly, and the loss falls to the floor that the first stage sets.
"""

import matplotlib.pyplot as plt

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp
from sklntp.inspection import ConvergenceDisplay
from sklntp.metrics import convergence_rate

# %%
# Data that meet the assumptions, and both stages of training with their distance to the references.
data = make_realizable_ntp(20, 100, max_length=5, random_state=0)
clf = NTPTransformerClassifier(max_iter=(500, 5000), track_alignment=True).fit(data.X, data.y)

# %%
# The guides are the claimed rates: log t / t for W_ov, log² t / t for W_kq, eta t for the norms.
ConvergenceDisplay.from_estimator(clf)
plt.show()

# %%
# The same as numbers, decade by decade: dist t / log² t stays bounded.
print(convergence_rate(clf.convergence_, "kq"))
