"""What training determines about sentences it never saw, and whether the model answers so.

The orders put each token of a sentence into a role under its query. Attention ranks optimal above
non-comparable above non-optimal tokens, so the answer is the next token of the top one, where that
is unique. `generalization_report` says for which sentences it is, and compares.
"""

import argparse

import numpy as np

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp
from sklntp.metrics import generalization_report

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--seeds", type=int, choices=range(1, 1001), metavar="N", default=2)
parser.add_argument("--steps", type=int, default=2000, help="of each stage")
args = parser.parse_args()

# %%
# For each seed a trained model and the limit of its training, both asked about sentences of random
# tokens (5 % of them unknown), whose answer may be undetermined, and about those that come with
# the data.
counts, shown, disagree = {}, None, 0
for seed in range(args.seeds):
    data = make_realizable_ntp(random_state=seed)
    rng = np.random.default_rng(seed)
    share = np.append(np.full(20, 0.95 / 20), 0.05)  # token 20 is unknown
    random = [rng.choice(21, rng.integers(2, 6), p=share).tolist() for _ in range(500)]
    for column, solver in enumerate(("ngd", "max_margin")):
        clf = NTPTransformerClassifier(solver=solver, max_iter=args.steps).fit(data.X, data.y)
        of_data = generalization_report(clf, data.X_unseen, data.y_unseen)
        disagree += np.count_nonzero(of_data.determined != of_data.y)
        report = generalization_report(clf, random)
        shown = shown or report
        for name, found in (("random", report), ("of the data", of_data)):
            for row in found.summary:
                total = counts.setdefault((name, row["pattern"]), np.zeros((2, 3), dtype=int))
                right = np.count_nonzero(found.correct[found.pattern == row["pattern"]])
                total[column] += [row["sentences"], row["determined"], right]

# %%
# One report in full.
print(shown, "\n")

# %%
# All seeds together.
print(f"{args.seeds} seeds, {args.steps} steps per stage")
print(
    "sentences    pattern                                           number  determined  "
    "right: trained  limit"
)
for (name, pattern), ((n, determined, trained), (*_, limit)) in sorted(counts.items()):
    print(f"{name:12} {pattern:49} {n:6d} {determined:11d} {trained:15d} {limit:6d}")
print(f"sentences of the data whose determined answer is not the true one: {disagree}")
