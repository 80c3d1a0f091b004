"""A million sentences of 12 tokens over 50,000 tokens: peak memory and times of the whole run.

The paper's case: each token has one next token and a one-token sentence, and the next token of a
sentence is that of its token of highest rank. A second case, for information and of 20,000
sentences, has several next tokens per token: the next token of each sentence is drawn at random by
Zipf's law, as its tokens are. There a step costs as much as the classes that the tokens of a
sentence vote for, thousands at this size.

Every run has a process of its own, whose peak memory counts the data and the packages too.
"""

import argparse
import time

import numpy as np
from common import Row, duration, in_subprocess, peak_memory, progress, show

FORMS = ("arrays", "str", "arrow")


def ranked_sentences(n_sentences, n_tokens, length, random_state=0):
    """Sentences as a 2-D array, next tokens, and the next token of each one-token sentence."""
    rng = np.random.default_rng(random_state)
    table = rng.integers(0, n_tokens, (n_sentences, length), dtype=np.int32)
    rank = rng.permutation(n_tokens).astype(np.int32)
    next_token = rng.permutation(n_tokens).astype(np.int32)
    best = table[np.arange(n_sentences), np.argmin(rank[table], axis=1)]
    return table, next_token[best], next_token


def zipf_sentences(n_sentences, n_tokens, length, random_state=0):
    """Sentences as a 2-D array and next tokens, all drawn by Zipf's law."""
    rng = np.random.default_rng(random_state)
    weight = 1.0 / np.arange(1, n_tokens + 1)
    drawn = rng.choice(n_tokens, (n_sentences, length + 1), p=weight / weight.sum())
    return drawn[:, :-1].astype(np.int32), drawn[:, -1]


def as_form(table, n_single, form):
    """The rows of a table and one-token sentences 0, 1, ... in one of the input forms."""
    if form == "arrays":
        return [*table, *np.arange(n_single, dtype=table.dtype)[:, None]]
    if form == "str":
        return [[str(t) for t in row] for row in table] + [[str(t)] for t in range(n_single)]
    import pandas as pd
    import pyarrow as pa

    flat = np.concatenate([table.ravel(), np.arange(n_single, dtype=table.dtype)])
    lengths = np.repeat([table.shape[1], 1], [len(table), n_single])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    column = pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat))
    return pd.Series(column, dtype=pd.ArrowDtype(column.type))


class Phases:
    """Seconds between calls, by name."""

    def __init__(self):
        self.seconds, self.start = {}, time.perf_counter()

    def done(self, name):
        """The phase that ends now."""
        now = time.perf_counter()
        self.seconds[name], self.start = now - self.start, now


def run(case, form, n_sentences, n_tokens, length=12, n_steps=100, n_jobs=None):
    """Seconds of each phase of one run, and the peak memory of this process in bytes."""
    # Imported here: only the process of the run needs them.
    from sklntp import NTPTransformerClassifier, _classifier

    if case == "ranked":
        table, y, next_token = ranked_sentences(n_sentences, n_tokens, length)
        y, n_single = np.concatenate([y, next_token]), n_tokens
    else:
        table, y = zipf_sentences(n_sentences, n_tokens, length)
        n_single = 0
    X = as_form(table, n_single, form)
    y = [str(label) for label in y] if form == "str" else y
    del table
    clf = NTPTransformerClassifier(max_iter=n_steps, collocation="auto", n_jobs=n_jobs)
    phases, build = Phases(), _classifier.build_dataset

    def build_dataset(*args, **kwargs):
        data = build(*args, **kwargs)
        phases.done("encoding")
        return data

    def report(stage, n_steps, t, record):
        if t in (0, n_steps):
            phases.done(f"stage {stage}" if t else f"stage {stage}, set up and first gradient")

    _classifier.build_dataset, clf._report = build_dataset, report
    clf.set_params(verbose=1).fit(X, y)
    del clf._report
    phases.done("fitted attributes")
    fitted = peak_memory()
    predicted = clf.predict(X[:n_sentences])
    phases.done("predict")
    log_p = clf.label_log_proba(X[:n_sentences], y[:n_sentences])
    phases.done("label_log_proba")
    return {
        "seconds": phases.seconds,
        "fit": fitted,
        "peak": peak_memory(),
        "accuracy": float(np.mean(predicted == y[:n_sentences])),
        "log_p": float(np.mean(log_p)),
    }


def measure(scale=1.0, n_steps=100, forms=("arrays", "str")):
    """The rows of the runs: the paper's case in each form of input, and the Zipf case."""
    n, n_tokens = int(scale * 1_000_000), int(scale * 50_000)
    cases = [("ranked", form, n, n_tokens) for form in forms]
    cases.append(("zipf", "arrays", n // 50, int(scale * 20_000)))
    rows = []
    for case, form, n_sentences, size in cases:
        progress(f"size: {n_sentences:,} sentences, {case}, {form}")
        found = in_subprocess(run, case, form, n_sentences, size, n_steps=n_steps)
        what = f"{n_sentences:,} sentences, {size:,} tokens, {case} ({form})"
        seconds, limit = found["seconds"], 1.0 if case == "ranked" else None
        times = ", ".join(f"{name} {duration(s)}" for name, s in seconds.items())
        memory, predict = found["peak"], seconds["predict"]
        rows += [
            Row(
                f"{what}: peak memory, {n_steps} steps of both stages",
                f"{memory / 1e9:.2f} GB ({times})",
                "3 GB",
                memory / 3e9,
                at_most=limit,
            ),
            Row(f"{what}: predict", duration(predict), "10 s", predict / 10.0, at_most=limit),
        ]
    return rows


def main():
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of sentences and tokens")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["arrays", "str"])
    args = parser.parse_args()
    show(measure(args.scale, args.steps, args.forms))


if __name__ == "__main__":
    main()
