"""How fit, predict and the references grow: the cases I2, I3, I4 and F9 of the acceptance tests.

Both sizes of a comparison are timed in alternation, on one thread.
"""

import numpy as np
from common import Row, alternate, duration, median_ratio, progress, run_alone
from threadpoolctl import threadpool_limits
from workload import SecondStage, realizable_sentences

from sklntp import NTPTransformerClassifier
from sklntp.structure import max_margin_kq, max_margin_ov


def compare(what, functions, rounds, at_most, repeats=None):
    """The row of two functions, the small and the large problem, by their names."""
    seconds = alternate(functions, rounds, repeats=repeats)
    small, large = seconds
    times = {name: duration(float(np.median(seconds[name]))) for name in seconds}
    return Row(
        what,
        f"{times[large]}: {large}",
        f"{times[small]}: {small}",
        median_ratio(seconds[large], seconds[small]),
        at_most=at_most,
    )


def fit_and_predict(sizes, n_tokens, rounds, n_steps=100):
    """I2 and I3: ten times the sentences take at most twelve times as long."""
    problems = {f"{n:,} sentences": realizable_sentences(n_tokens, n) for n in sizes}

    def fit(name):
        return NTPTransformerClassifier(max_iter=n_steps).fit(*problems[name])

    fitted = fit(f"{sizes[-1]:,} sentences")
    predicts = {name: lambda X=X: fitted.predict(X) for name, (X, _) in problems.items()}
    fits = {name: lambda name=name: fit(name) for name in problems}
    return [
        compare("I2: predict", predicts, rounds, 12.0),
        compare(f"I3: fit, {n_steps} steps of both stages", fits, max(2, rounds // 3), 12.0),
    ]


def repeated(n_distinct, n_sentences, rounds):
    """I4: a step on sentences that repeat costs as one on the distinct ones."""
    X, y = realizable_sentences(12, n_distinct)
    times = n_sentences // n_distinct
    many = f"{n_sentences:,} sentences, {n_distinct} distinct"
    stages = {
        f"{n_distinct} sentences": SecondStage(X, y),
        many: SecondStage(X * times, np.tile(y, times)),
    }
    runs = {name: stage.run for name, stage in stages.items()}
    return compare(
        "I4: four evaluations of stage 2", runs, rounds, 1.2, repeats=dict.fromkeys(runs, 200)
    )


def references(n_sentences, n_tokens, rounds):
    """F9: both max-margin references, data read and encoded for each."""
    X, y = realizable_sentences(n_tokens, n_sentences)
    seconds = alternate({"both": lambda: (max_margin_ov(X, y), max_margin_kq(X, y))}, rounds)
    found = float(np.median(seconds["both"]))
    what = f"F9: references of {n_sentences:,} sentences over {n_tokens} tokens"
    return Row(what, duration(found), "2 s", found / 2.0, at_most=1.0)


def measure(scale=1.0, rounds=9):
    """The rows of the four cases."""
    sizes = (int(scale * 10_000), int(scale * 100_000))
    with threadpool_limits(1):
        progress("acceptance: fit and predict")
        rows = fit_and_predict(sizes, 999 if scale >= 0.1 else 99, rounds)
        progress("acceptance: repeated sentences, references")
        rows.append(repeated(50, sizes[-1], rounds))
        rows.append(references(sizes[0], 201, max(2, rounds // 3)))
    return rows


if __name__ == "__main__":
    run_alone(measure, __doc__)
