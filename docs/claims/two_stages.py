"""Two stages, or both matrices at once: what the same number of steps buys.

Training both matrices at once spends most of each step on W_ov. It lowers the loss faster, and pays
for it with attention: the direction of W_kq falls behind that of the two-stage training, and so do
the predictions on unseen sentences while steps are few. The last lines check this against the
numbers.
"""

import numpy as np

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp

SEEDS, BUDGETS, STEP_SIZE = range(3), (60, 120, 400, 800), 0.2

# %%
# Fair means here: the same data, the same step size and the same number of gradient steps in all,
# half of them for each stage. Each step then moves the parameters by 0.2 in both trainings: in the
# two-stage one it goes to one matrix, in the other the matrices share it as their gradients decide.
# The single stage has no reference of its own; its matrices are compared with those of the other.
# Time is not counted: it would favour two stages, whose steps need no dense W_ov.
QUANTITIES = ["loss", "norm_ov", "norm_kq", "dist_ov", "cosine_kq", "dist_kq", "train", "unseen"]


def two_stages(data, budget):
    """Half of the budget for W_ov, then half for W_kq."""
    clf = NTPTransformerClassifier(
        step_size=STEP_SIZE, max_iter=(budget // 2, budget - budget // 2), track_alignment=True
    ).fit(data.X, data.y)
    ov, kq = clf.convergence_["ov"], clf.convergence_["kq"]
    return (
        kq["loss"][-1],
        ov["norm"][-1],
        kq["norm"][-1],
        ov["dist"][-1],
        kq["cosine"][-1],
        kq["dist"][-1],
        kq["accuracy"][-1],
        clf.score(data.X_unseen, data.y_unseen),
    )


def single_stage(clf, data, budget):
    """Both matrices at once, continued to the budget; the curves end in _ov and _kq."""
    done = clf.convergence_["joint"]["loss"].size - 1 if hasattr(clf, "classes_") else 0
    clf.set_params(max_iter=budget - done).fit(data.X, data.y)
    joint = clf.convergence_["joint"]
    return (
        *(joint[name][-1] for name in QUANTITIES[:-2]),
        joint["accuracy"][-1],
        clf.score(data.X_unseen, data.y_unseen),
    )


# %%
# Both trainings at every budget, on realizable data of several seeds.
results = np.empty((2, len(SEEDS), len(BUDGETS), len(QUANTITIES)))
for i, seed in enumerate(SEEDS):
    data = make_realizable_ntp(20, 100, max_length=5, random_state=seed)
    joint = NTPTransformerClassifier(
        stages=("joint",), step_size=STEP_SIZE, warm_start=True, track_alignment=True
    )
    for j, budget in enumerate(BUDGETS):
        results[0, i, j] = two_stages(data, budget)
        results[1, i, j] = single_stage(joint, data, budget)

print(f"median of {len(SEEDS)} seeds")
print("steps  training      " + "".join(f"{name:>10}" for name in QUANTITIES))
for j, budget in enumerate(BUDGETS):
    for name, of in zip(("two stages", "single stage"), np.median(results, axis=1), strict=True):
        print(f"{budget:5d}  {name:12}  " + "".join(f"{value:10.3g}" for value in of[j]))

# %%
# The conclusion, counted over all seeds and budgets.
two, single = (dict(zip(QUANTITIES, np.moveaxis(of, -1, 0), strict=True)) for of in results)


def verdict(name, sign):
    """Who is ahead in a quantity, and how often; sign: 1 where more is better, else -1."""
    ahead = np.sum(sign * two[name] > sign * single[name])
    behind = np.sum(sign * two[name] < sign * single[name])
    winner = "two stages" if ahead > behind else "single stage" if behind > ahead else "neither"
    return f"{winner:12} ({ahead} to {behind} of {two[name].size}, the rest equal)"


print("\nAhead, two stages to single stage:")
print(f"  training loss         {verdict('loss', -1)}")
print(f"  direction of W_ov     {verdict('dist_ov', -1)}")
print(f"  direction of W_kq     {verdict('dist_kq', -1)}")
print(f"  training accuracy     {verdict('train', 1)}")
print(f"  unseen accuracy       {verdict('unseen', 1)}")
for name, of in (("two stages", two), ("single stage", single)):
    growth = np.median(of["norm_kq"][:, -1] / of["norm_kq"][:, -2])
    share = np.median(of["norm_ov"][:, -1] / (of["norm_ov"][:, -1] + of["norm_kq"][:, -1]))
    print(
        f"{name}: W_ov holds {share:.0%} of the sum of the norms; from {BUDGETS[-2]} to "
        f"{BUDGETS[-1]} steps W_kq grows {growth:.2f} times"
    )
