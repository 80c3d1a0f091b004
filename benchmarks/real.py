"""Next tokens of real sequences: n-grams, LogisticRegression and ours, on any file of sequences.

`python -m benchmarks.real PATH...` prints one Markdown table; `protocol.py` says how a file becomes
training and test pairs. A model sees the training pairs only and chooses its settings by log-loss
on the validation sequences; figures are means over `--seeds`, one split each. Accuracy is the share
of next tokens ranked first, top-5 of those among the first five, by probability and, where that is
equal, by how common the token is as a next token in training. Log-loss is natural, with the floor
of `sklntp.metrics.neg_log_loss` for a token never seen as a next token in training. "fit" is the
fit of the chosen setting on all training pairs, "search" that and the search before it, with one
BLAS thread; "memory" is the peak of a process that does this for one model, libraries and data
included.
"""

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from threadpoolctl import threadpool_limits

# For a checkout that is not installed, and for -m.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import protocol
from common import duration, in_subprocess, markdown_table, peak_memory, progress
from ngrams import NGramClassifier

from sklntp import NTPTransformerClassifier, make_next_token_pipeline
from sklntp.metrics import neg_log_loss

ALPHAS = [0.01, 0.03, 0.1, 0.3, 1.0]
ORDERS = [1, 2, 3, 4, 5, 6, 7, 8]

# What the search of the recommended pipeline tries. On few types of tokens: long n-grams; on many
# (words): few positions and a strong penalty, or frequent pairs of tokens. On both: the closed form
# alone, with attention on the longest n-gram, which is the Kneser-Ney n-gram model.
MANY_TYPES = 100
NGRAM = {
    "ngrams__max_n": [1, 2, 4, 6],
    "positions__max_distance": [1],
    "positions__keep_untagged": [False],
    "classifier__stages": [("ov",)],
    "classifier__attention_start": [3.0],
}
FEW = [
    {"ngrams__max_n": [2], "classifier__alpha": [0.03, 0.1, 0.3, 1.0]},
    {
        "ngrams__max_n": [4],
        "classifier__alpha": [0.3, 1.0],
        "classifier__attention_start": [0.0],
    },
    NGRAM,
]
MANY = [
    {
        "ngrams__max_n": [1],
        "positions__max_distance": [2],
        "classifier__alpha": [1.0, 3.0],
    },
    {
        "ngrams__max_n": [2],
        "ngrams__min_count": [2],
        "classifier__alpha": [0.3, 1.0],
        "classifier__max_iter": [150],
    },
    NGRAM,
]


def search(estimator, grid, training):
    """The best setting on the validation sequences, fitted again on all training sequences."""
    found = GridSearchCV(estimator, grid, scoring=neg_log_loss, cv=training.cv, error_score="raise")
    return found.fit(training.X, training.y)


def majority(training):
    """Class frequencies."""
    model = NGramClassifier(order=1, smoothing="additive")
    return search(model, {"alpha": ALPHAS}, training)


def markov(training):
    """First-order Markov."""
    model = NGramClassifier(order=2, smoothing="additive")
    return search(model, {"alpha": ALPHAS}, training)


def witten_bell(training):
    """Witten-Bell n-gram."""
    return search(NGramClassifier(smoothing="witten_bell"), {"order": ORDERS}, training)


def kneser_ney(training):
    """Modified Kneser-Ney n-gram."""
    return search(NGramClassifier(smoothing="kneser_ney"), {"order": ORDERS}, training)


def best_ngram(training):
    """The better of these two on the validation sequences."""
    grid = {"smoothing": ["kneser_ney", "witten_bell"], "order": ORDERS}
    return search(NGramClassifier(), grid, training)


def _itself(context):
    return context


def _last(context):
    return context[-1:]


def logistic_regression(training):
    """LogisticRegression on the one-hot last token beside the counts of all tokens."""
    features = FeatureUnion(
        [
            ("last", CountVectorizer(analyzer=_last, dtype=np.float32)),
            ("bag", CountVectorizer(analyzer=_itself, dtype=np.float32)),
        ]
    )
    model = Pipeline([("features", features), ("lr", LogisticRegression(max_iter=200))])
    with warnings.catch_warnings():
        # After 200 steps its log-loss was within 0.004 of the end where this was tried.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return search(model, {"lr__C": [0.03, 0.3, 3.0]}, training)


def paper(training):
    """The paper's recipe: W_ov from contexts of one token, both stages of constant steps."""
    model = NTPTransformerClassifier(collocation="single", max_iter=100, n_jobs=-1)
    return model.fit(training.X, training.y)


def two_stages(training):
    """The paper's two stages with W_ov from all pairs of last and next token, by L-BFGS."""
    model = NTPTransformerClassifier(collocation="last", solver="lbfgs", n_jobs=-1)
    return search(model, {"alpha": [0.1, 1.0, 10.0]}, training)


def recommended(training):
    """The recommended pipeline."""
    pipeline = make_next_token_pipeline(n_jobs=-1)
    n_types = len({token for context in training.X for token in context})
    return search(pipeline, FEW if n_types <= MANY_TYPES else MANY, training)


# Each gets a protocol.Training and returns what is fitted on all of it, with predict_proba and
# classes_; with GridSearchCV's refit_time_ and best_params_ where it searched.
MODELS = {
    "majority class": majority,
    "first-order Markov, additive": markov,
    "n-gram, Witten-Bell": witten_bell,
    "n-gram, Kneser-Ney": kneser_ney,
    "best n-gram": best_ngram,
    "LogisticRegression, last + bag": logistic_regression,
    "ours, paper": paper,
    "ours, two stages on last tokens": two_stages,
    "ours, recommended": recommended,
}


@dataclass(frozen=True)
class Result:
    """Figures of one model on one split."""

    setting: str
    accuracy: float
    top_5: float
    log_loss: float
    fit: float  # seconds
    search: float  # seconds
    memory: int  # bytes


HEADER = ["model", "setting", "accuracy", "top-5", "log-loss", "fit", "search", "memory"]


def assess(path, seed, name):
    """The figures of the model of that name; called in a process of its own."""
    training, test = protocol.split(protocol.read(path), seed)
    with threadpool_limits(1):
        start = time.perf_counter()
        model = MODELS[name](training)
        seconds = time.perf_counter() - start
        hits = protocol.ranks(model, test, training)
        loss = -neg_log_loss(model, test.X, test.y)
    setting = getattr(model, "best_params_", {})
    return Result(
        ", ".join(f"{key.split('__')[-1]}={value}" for key, value in setting.items()) or "-",
        np.mean(hits < 1),
        np.mean(hits < 5),
        loss,
        getattr(model, "refit_time_", seconds),
        seconds,
        peak_memory(),
    )


def mean_line(name, results):
    """The line of a model: means over the splits, and every setting chosen."""
    mean = {
        key: np.mean([getattr(result, key) for result in results])
        for key in ("accuracy", "top_5", "log_loss", "fit", "search", "memory")
    }
    return [
        name,
        "; ".join(dict.fromkeys(result.setting for result in results)),
        f"{100 * mean['accuracy']:.1f} %",
        f"{100 * mean['top_5']:.1f} %",
        f"{mean['log_loss']:.3f}",
        duration(mean["fit"]),
        duration(mean["search"]),
        f"{mean['memory'] / 2**20:,.0f} MB",
    ]


def heading(path, seeds):
    """The line above those of a file; reading it finds what is wrong before anything is run."""
    sequences = protocol.read(path)
    training, test = protocol.split(sequences, seeds[0])
    for seed in seeds[1:]:
        protocol.split(sequences, seed)
    text = (
        f"**{Path(path).name}**: {len(training.y):,} training and {len(test.y):,} test pairs, "
        f"{len(np.unique(training.y))} next tokens (seed {seeds[0]})"
    )
    return [text, *[""] * (len(HEADER) - 1)]


def lines_of(path, seeds):
    """The lines of a file: its models one after the other, each split in a new process."""
    for name in MODELS:
        results = []
        try:
            for seed in seeds:
                results.append(in_subprocess(assess, path, seed, name))
                progress(f"{Path(path).name}, seed {seed}, {name}: {results[-1].log_loss:.4f}")
        except Exception as error:
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            progress(f"{Path(path).name}, {name}: FAILED, {text}")
            yield [name, f"**failed**: {text}", *["-"] * (len(HEADER) - 2)]
        else:
            yield mean_line(name, results)


def main():
    """Print the table; the exit status is 1 where a model failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", metavar="PATH", help="one sequence a line")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="of the splits")
    args = parser.parse_args()
    try:
        headings = [heading(path, args.seeds) for path in args.paths]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    lines = []
    for path, head in zip(args.paths, headings, strict=True):
        lines += [head, *lines_of(path, args.seeds)]
    print(markdown_table(HEADER, lines))
    return int(any("**failed**" in line[1] for line in lines))


if __name__ == "__main__":
    sys.exit(main())
