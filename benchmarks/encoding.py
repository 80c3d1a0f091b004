"""From a million sentences of ten tokens to merged contexts and labels, in units of one Counter.

The yardstick is ``Counter(chain.from_iterable(sentences))`` on the same sentences as lists of str,
timed in turn with each form, so that a change in the machine's speed hits both. Tokens are drawn by
Zipf's law or uniformly (then nearly all contexts are distinct), the next token is drawn at random.
Forms of packages that are not installed are left out.
"""

import argparse
from collections import Counter
from importlib.util import find_spec
from itertools import chain, pairwise

import numpy as np
from common import Row, alternate, duration, median_ratio, show

from sklntp._dataset import merge_data

LENGTH = 10


def draw(n_sentences, n_tokens, zipf, random_state=0):
    """Sentences as a 2-D array of token numbers, and the next token of each."""
    rng = np.random.default_rng(random_state)
    share = 1.0 / np.arange(1, n_tokens + 1) if zipf else np.ones(n_tokens)
    drawn = rng.choice(n_tokens, (n_sentences, LENGTH + 1), p=share / share.sum())
    return drawn[:, :-1], drawn[:, -1]


def _str_lists(table):
    names = np.array([f"t{k:05d}" for k in range(table.max() + 1)], dtype=object)
    return names[table].tolist()


def _ragged(table):
    """The same tokens in sentences of 5 to 15 tokens."""
    flat = _str_lists(table.reshape(1, -1))[0]
    lengths = np.full(len(table), LENGTH)
    moved = np.random.default_rng(0).integers(-5, 6, len(table) // 2)  # from one to the next
    lengths[: 2 * len(moved) : 2] -= moved
    lengths[1 : 2 * len(moved) : 2] += moved
    stops = np.cumsum(lengths).tolist()
    return [flat[start:stop] for start, stop in pairwise([0, *stops])]


def _arrow(table, list_type="list_", value_type="string"):
    import pyarrow as pa

    return pa.array(_str_lists(table), getattr(pa, list_type)(getattr(pa, value_type)()))


def _arrow_dictionary(table):
    import pyarrow as pa

    flat = _arrow(table).flatten().dictionary_encode()
    return pa.ListArray.from_arrays(np.arange(0, table.size + 1, LENGTH, dtype=np.int32), flat)


def _arrow_ints(table):
    import pyarrow as pa

    return pa.FixedSizeListArray.from_arrays(table.ravel(), LENGTH)


def _pandas(table):
    import pandas as pd

    column = _arrow(table)
    return pd.Series(column, dtype=pd.ArrowDtype(column.type))


def _polars(table):
    import polars as pl

    return pl.Series(_str_lists(table))


def _polars_ints(table):
    import polars as pl

    return pl.Series(table.tolist())


FORMS = {
    "lists of str": (None, _str_lists),
    "lists of str, 5 to 15 tokens": (None, _ragged),
    "2-D array of str": (None, lambda table: np.array(_str_lists(table))),
    "lists of int": (None, np.ndarray.tolist),
    "2-D array of int": (None, lambda table: table),
    "list of int arrays": (None, list),
    "Arrow, lists of string": ("pyarrow", _arrow),
    "Arrow, lists of dictionary": ("pyarrow", _arrow_dictionary),
    "Arrow, fixed-size lists of int": ("pyarrow", _arrow_ints),
    "pandas, Arrow lists of string": ("pyarrow", _pandas),
    "polars, lists of str": ("polars", _polars),
    "polars, lists of int": ("polars", _polars_ints),
}


def measure(n_sentences=1_000_000, rounds=3, forms=None):
    """Time each form.

    Parameters
    ----------
    n_sentences : int, default=1_000_000
    rounds : int, default=3
    forms : list of str, default=None
        Keys of `FORMS`; None for all.

    Returns
    -------
    list of Row
        The target is for lists of str of one length.
    """
    rows = []
    for n_tokens, zipf in ((1_000, True), (50_000, True), (50_000, False)):
        table, next_token = draw(n_sentences, n_tokens, zipf)
        sentences = _str_lists(table)
        y = [f"t{k:05d}" for k in next_token.tolist()]
        data = f"{n_tokens:,} tokens, {'Zipf' if zipf else 'uniform'}"
        for name in forms or FORMS:
            package, make = FORMS[name]
            # The other forms differ from lists of str in the reading alone.
            if (package and not find_spec(package)) or (
                n_tokens == 1_000 and name != "lists of str"
            ):
                continue
            what = f"from X and y to merged contexts: {name}; {data}"
            at_most = 6 if name == "lists of str" else None
            rows.append(_row(what, make(table), y, sentences, rounds, at_most))
    return rows


def _row(what, X, y, sentences, rounds, at_most):
    """The row of encoding X, beside one Counter over `sentences`; medians over rounds."""
    seconds = alternate(
        {
            "counter": lambda: Counter(chain.from_iterable(sentences)),
            "encoding": lambda: merge_data(X, y),
        },
        rounds,
    )
    encoding, counter = seconds["encoding"], seconds["counter"]
    return Row(
        what,
        duration(np.median(encoding)),
        f"`Counter` of the same tokens: {duration(np.median(counter))}",
        median_ratio(encoding, counter),
        at_most=at_most,
    )


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--forms", nargs="+", choices=FORMS)
    args = parser.parse_args()
    show(measure(args.sentences, args.rounds, args.forms))


if __name__ == "__main__":
    main()
