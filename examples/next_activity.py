"""
From an event table to the next activity
========================================

A table of events becomes a tuned, scored and explained model of the next activity in some thirty
lines. Whether a returned order is refunded was decided by an activity long before; attention finds
it.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV, GroupKFold, GroupShuffleSplit

from sklntp import make_next_token_pipeline
from sklntp.inspection import AttentionDisplay
from sklntp.metrics import neg_log_loss, perplexity
from sklntp.preprocessing import make_contexts, sequences_from_events

# %%
# 400 orders: those checked by hand are refunded when they come back, the others exchanged.
rng, rows = np.random.default_rng(0), []
for order in range(400):
    log, manual = ["receive"], rng.random() < 0.4
    log += ["check by hand" if manual else "check", "pack"] + ["wait"] * rng.integers(3) + ["ship"]
    log += ["return", "refund" if manual else "exchange"] * (rng.random() < 0.5) + ["end"]
    rows += [(order, activity, 10 * order + hour) for hour, activity in enumerate(log)]
events = pd.DataFrame(rows, columns=["order", "activity", "hour"]).sample(frac=1, random_state=0)

# %%
# Contexts and their next activities; tuned and scored on orders that were not trained on.
X, y, groups = make_contexts(sequences_from_events(events, "order", "activity", "hour")[0])
train, test = next(GroupShuffleSplit(test_size=0.25, random_state=0).split(X, y, groups))
grid = {"ngrams__max_n": [1, 3], "classifier__alpha": [0.03, 0.1, 1.0]}
scoring = {"log-loss": neg_log_loss, "perplexity": perplexity}  # negated: greater is better
search = GridSearchCV(
    make_next_token_pipeline(), grid, scoring=scoring, refit="log-loss", cv=GroupKFold(3)
).fit(X[train], y[train], groups=groups[train])
print("chosen:", search.best_params_)
print(f"accuracy: {np.mean(search.predict(X[test]) == y[test]):.3f}")
print({name: round(-score(search, X[test], y[test]), 3) for name, score in scoring.items()})

# %%
# Why a refund: what each token adds to its logit; "return@0" is the last token.
case = ["receive", "check by hand", "pack", "wait", "ship", "return"]
best = search.best_estimator_
print(best[-1].explain(best[:-1].transform([case])[0]))

# %%
# The same order, checked by hand or not: where the model looks, and what it answers.
other = [activity.replace("check by hand", "check") for activity in case]
AttentionDisplay.from_estimator(best, [case, other])
plt.show()
