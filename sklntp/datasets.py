"""Data for next-token prediction: real token sequences, and samples with a known partial order."""

import importlib.util
import keyword
import tokenize
from collections import Counter
from numbers import Integral, Real

import numpy as np
from sklearn.utils import Bunch, check_random_state

__all__ = ["load_python_tokens", "make_realizable_ntp"]

# All of them have Python source in 3.11 to 3.14, together about 14,000 logical lines.
_MODULES = tuple(
    "argparse calendar configparser difflib functools inspect ipaddress logging mailbox shutil "
    "tarfile typing".split()
)
_BREAKS = (None, "confused", "cyclic", "minority", "non_injective")
_UNSEEN_NON_COMPARABLE = 0.45  # share of unseen sentences meant to hold a non-comparable token


def load_python_tokens(modules=_MODULES):
    """Load the token sequences of the running Python's own standard library.

    Each logical line of source is one sequence. Keywords and operators stand for themselves,
    other names, numbers and strings are folded to "NAME", "NUMBER" and "STRING", and every line
    ends with "NEWLINE". Comments, indentation and line breaks inside a logical line are dropped.

    Parameters
    ----------
    modules : sequence of str, default=twelve modules of the standard library
        Names of modules with Python source. The source is read, the module is not imported; for a
        dotted name Python itself imports the packages above it.

    Returns
    -------
    data : :class:`sklearn.utils.Bunch`
        sequences : list of lists of str
            The logical lines, in the order of `modules` and of the source.
        modules : list of str
            The names of the modules.
        DESCR : str
            A short description.

    Raises
    ------
    TypeError
        If `modules` is one string, or a name in it is no string.
    ValueError
        If a module does not exist or has no Python source.

    Notes
    -----
    The sequences, and every figure computed from them, depend on the version of Python.

    Examples
    --------
    >>> from sklntp.datasets import load_python_tokens
    >>> load_python_tokens(["keyword"]).sequences[1]
    ['NAME', '=', '[', 'STRING', ',', 'STRING', ',', 'STRING', ',', 'STRING', ']', 'NEWLINE']
    """
    if isinstance(modules, str):
        raise TypeError(f"modules must be a sequence of module names; got the string {modules!r}.")
    sequences = []
    for name in modules:
        with tokenize.open(_source_path(name)) as source:
            tokens = tokenize.generate_tokens(source.readline)
            sequences += _logical_lines((tokenize.tok_name[t.type], t.string) for t in tokens)
    descr = f"Logical lines of {len(modules)} modules of the Python standard library, as tokens."
    return Bunch(sequences=sequences, modules=list(modules), DESCR=descr)


def _source_path(name):
    if not isinstance(name, str):
        raise TypeError(f"modules must hold strings; got {type(name).__name__} {name!r}.")
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:  # no package above it, or no name at all
        raise ValueError(f"modules: cannot find the module {name!r} ({error}).") from None
    if spec is None:
        raise ValueError(f"modules: this Python has no module {name!r}.")
    # Modules frozen into the interpreter, such as os, keep the path of their source elsewhere.
    path = getattr(spec.loader_state, "filename", None) or spec.origin
    if path is None or not path.endswith(".py"):
        raise ValueError(f"modules: {name!r} has no Python source file (origin: {spec.origin}).")
    return path


def _logical_lines(tokens):
    """Fold (kind, string) pairs of :mod:`tokenize` into lists of str, one per logical line.

    From Python 3.12 on an f-string comes in pieces between FSTRING_START and FSTRING_END (3.14
    adds TSTRING_*), nested where it holds another one; the outermost pair becomes one "STRING".
    """
    lines, line, depth = [], [], 0
    for kind, string in tokens:
        if kind in ("FSTRING_START", "TSTRING_START"):
            line += ["STRING"] * (depth == 0)
            depth += 1
        elif kind in ("FSTRING_END", "TSTRING_END"):
            depth -= 1
        elif depth:
            continue
        elif kind == "OP" or keyword.iskeyword(string):
            line.append(string)
        elif kind in ("NAME", "NUMBER", "STRING"):
            line.append(kind)
        elif kind == "NEWLINE" and line:
            lines.append([*line, kind])
            line = []
    return lines


def make_realizable_ntp(
    n_tokens=20,
    n_sentences=200,
    *,
    max_length=8,
    optimal=0.3,
    non_optimal=0.5,
    prefix_closed=False,
    break_assumption=None,
    random_state=None,
):
    """Generate realizable next-token data with known collocation and partial orders.

    The collocation n is a random permutation of the tokens 0 ... `n_tokens` - 1, shown by one
    one-token sentence [x] -> n(x) per token. For each query q, the last token of a sentence, the
    tokens are split at random into optimal, non-optimal and non-comparable ones. A longer sentence
    holds exactly one optimal token x*, at least as often as each other token; all others are
    non-optimal, and the next token is n(x*).

    Parameters
    ----------
    n_tokens : int, default=20
        Number of tokens, at least 2.
    n_sentences : int, default=200
        Number of training sentences, the `n_tokens` one-token sentences among them.
    max_length : int, default=8
        Largest length of a sentence, at least 2.
    optimal, non_optimal : float, default=0.3 and 0.5
        Shares of the tokens drawn optimal and non-optimal under each query, at least one token
        each. A query drawn optimal is in all its sentences, so no other optimal token is.
    prefix_closed : bool, default=False
        Grow sentences by the rule itself, x_{L+1} = n(optimal token of x_1 ... x_L), so that each
        prefix is a sample too. Growth stops where the rule decides nothing or the data would not
        be realizable: 20 tokens give about 30 sentences; `n_sentences` only bounds their number.
    break_assumption : {None, "confused", "cyclic", "minority", "non_injective"}, default=None
        What to violate, without `prefix_closed` only. Under some queries a token is above one and
        below another ("confused"), or two tokens are above each other ("cyclic", and so confused
        as well); in half of the longer sentences another token occurs more often than the optimal
        one ("minority"); two tokens have the same next token ("non_injective").
    random_state : int, RandomState instance or None, default=None
        Seed; equal seeds give equal data.

    Returns
    -------
    data : :class:`sklearn.utils.Bunch`
        X : list of lists of int
            Training sentences; the first `n_tokens` are the one-token sentences, in order.
        y : ndarray of shape (len(X),)
            Their next tokens.
        X_unseen : list of lists of int
            Up to `n_sentences` sentences whose contexts (query, bag of tokens) are not in `X` and
            whose next token the theory determines: attention ranks optimal over non-comparable
            over non-optimal tokens, and one token is alone on top, at least as often as each other.
        y_unseen : ndarray of shape (len(X_unseen),)
            Their next tokens.
        collocation : dict
            Token -> its next token.
        partial_orders : dict
            Query -> dict of sorted lists, as observed in `X`: tokens "optimal", "non_optimal",
            "confused" and "non_comparable" (every other token), and "pairs", tuples (above, below)
            of tokens that meet in a sentence. Each token is a query, if only of its own sentence.
        DESCR : str
            A short description.

    Raises
    ------
    TypeError
        If a parameter has the wrong type.
    ValueError
        If a parameter is out of range, or too small for the others.

    References
    ----------
    R. Huang, Y. Liang, J. Yang, "Non-asymptotic Convergence of Training Transformers for
    Next-token Prediction", NeurIPS 2024, Assumptions 1 and 3.

    Examples
    --------
    >>> from sklntp.datasets import make_realizable_ntp
    >>> data = make_realizable_ntp(n_tokens=5, n_sentences=30, random_state=0)
    >>> len(data.X), data.X[:5]
    (30, [[0], [1], [2], [3], [4]])
    >>> data.y[:5].tolist() == [data.collocation[x] for x in range(5)]
    True
    """
    counts = {"n_tokens": n_tokens, "n_sentences": n_sentences, "max_length": max_length}
    shares = {"optimal": optimal, "non_optimal": non_optimal}
    _check_types(counts, Integral, "an integer")
    _check_types(shares, Real, "a number")
    if not isinstance(prefix_closed, bool):
        raise TypeError(f"prefix_closed must be True or False; got {type(prefix_closed).__name__}.")
    _check_ranges(counts, optimal, non_optimal, prefix_closed, break_assumption)
    rng = check_random_state(random_state)
    n, twin = _draw_collocation(rng, n_tokens, break_assumption)
    n_more = n_sentences - n_tokens
    broken = set()  # queries
    if break_assumption in ("confused", "cyclic"):  # each takes two sentences: leave some others
        broken.update(rng.permutation(n_tokens)[: max(1, min(n_tokens // 3, n_more // 4))].tolist())
    roles = [
        _draw_roles(rng, q, n_tokens, optimal, non_optimal, twin.get(q), q in broken) for q in n
    ]
    samples = [([x], x) for x in n]  # (sentence, the token that produces its next token)
    if prefix_closed:
        samples += _grow_samples(n, roles, n_more, max_length)
    else:
        samples += _draw_samples(rng, roles, n_more, max_length, twin, broken, break_assumption)
    orders = _observed_orders(samples, n_tokens)
    unseen = _draw_unseen(rng, samples, orders, n_sentences, max_length)
    return Bunch(
        X=[sentence for sentence, _ in samples],
        y=np.array([n[top] for _, top in samples], dtype=np.int64),
        X_unseen=[sentence for sentence, _ in unseen],
        y_unseen=np.array([n[top] for _, top in unseen], dtype=np.int64),
        collocation=n,
        partial_orders=orders,
        DESCR=f"{len(samples)} sentences of up to {max_length} of {n_tokens} tokens, and "
        f"{len(unseen)} unseen ones; violated assumption: {break_assumption}.",
    )


def _check_types(parameters, kind, words):
    for name, value in parameters.items():
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{name} must be {words}; got {type(value).__name__} {value!r}.")


def _check_ranges(counts, optimal, non_optimal, prefix_closed, broken):
    if broken not in _BREAKS:
        raise ValueError(f"break_assumption must be one of {_BREAKS}; got {broken!r}.")
    if prefix_closed and broken is not None:
        raise ValueError(f"break_assumption={broken!r} is not possible with prefix_closed=True.")
    n_tokens = counts["n_tokens"]
    least = {
        "n_tokens": 3 if broken in ("confused", "non_injective") else 2,
        "n_sentences": n_tokens + {"confused": 2, "cyclic": 2, "minority": 1}.get(broken, 0),
        "max_length": 3 if broken == "minority" else 2,
    }
    for name, value in counts.items():
        if value < least[name]:
            raise ValueError(
                f"{name} must be at least {least[name]} with {n_tokens} one-token sentences "
                f"(n_tokens) and break_assumption={broken!r}; got {value}."
            )
    if not (0 < optimal < 1 and 0 < non_optimal < 1 and optimal + non_optimal < 1 + 1e-12):
        raise ValueError(
            "optimal and non_optimal must be shares above 0 that add up to at most 1; "
            f"got {optimal} and {non_optimal}."
        )


def _draw_collocation(rng, n_tokens, break_assumption):
    """Return n, and for each of two tokens with the same next token the other one."""
    n = dict(enumerate(rng.permutation(n_tokens).tolist()))
    if break_assumption != "non_injective":
        return n, {}
    a, b = rng.permutation(n_tokens)[:2].tolist()
    n[b] = n[a]
    return n, {a: b, b: a}


def _draw_roles(rng, query, n_tokens, optimal, non_optimal, twin, broken):
    """Lists of the optimal and the non-optimal tokens under `query`, which is one of them.

    Its twin is neither: beside the query it would leave open which of the two gives the next token.
    With a broken order the query is non-optimal, and not the only such token if possible.
    """
    order = [x for x in rng.permutation(n_tokens).tolist() if x != twin]
    least = min(2, len(order) - 1) if broken else 1
    start = min(max(1, round(optimal * len(order))), len(order) - least)
    stop = min(start + max(least, round(non_optimal * len(order))), len(order))
    place, first = order.index(query), start if broken else 0
    if not first <= place < stop:
        target = rng.randint(first, stop)
        order[place], order[target] = order[target], order[place]
    top = order[:start]
    return [query] if query in top else top, order[start:stop]


def _draw_samples(rng, roles, n_samples, max_length, twin, broken, break_assumption):
    """Draw samples of two or more tokens, in random order."""
    samples = []
    rules = [[(x, low) for x in top] for top, low in roles]  # (top token, tokens below it) by query
    for query in sorted(broken):
        x, low = rules[query][rng.randint(len(rules[query]))]
        # The query is in the sentence anyway: with two tokens, it has to be above and below.
        middle = low[rng.randint(len(low))] if max_length > 2 else query
        back = [x] if break_assumption == "cyclic" else []
        rule = (middle, [u for u in low if u != middle] + back)
        samples.append(_draw_sentence(rng, query, x, low, max_length, must=[middle]))
        samples.append(_draw_sentence(rng, query, *rule, max_length, must=back))
        rules[query].append(rule)
    for i in range(n_samples - len(samples)):
        query = rng.randint(len(roles))
        top, low = rules[query][rng.randint(len(rules[query]))]
        if top in twin:
            low = [u for u in low if u != twin[top]]
        minority = break_assumption == "minority" and i % 2 == 0
        samples.append(_draw_sentence(rng, query, top, low, max_length, minority=minority))
    return [samples[i] for i in rng.permutation(len(samples))]


def _draw_sentence(rng, query, top, low, max_length, *, must=(), minority=False):
    """Draw one sentence that ends in `query`, as (sentence, top).

    It holds `top`, the tokens `must`, and else tokens of `low`, at least one. `top` occurs at least
    as often as each other token; with `minority` one other token occurs more often.
    """
    bag = [x for x in dict.fromkeys([*must, query]) if x != top] or [low[rng.randint(len(low))]]
    length = rng.randint(max(len(bag) + 1, 3 if minority else 2), max_length + 1)
    if minority:
        n_top, limit = rng.randint(1, (length - 1) // 2 + 1), length
        bag += bag * n_top
    else:
        least = -(-length // (len(low) + 1))  # with fewer one of the others would be in front
        n_top = limit = rng.randint(least, max(least, min(length // 2, length - len(bag))) + 1)
    counts = Counter(bag)
    while len(bag) < length - n_top:
        x = low[rng.randint(len(low))]
        if counts[x] < limit:
            counts[x] += 1
            bag.append(x)
    bag += [top] * n_top
    bag.remove(query)
    rng.shuffle(bag)
    return [*bag, query], top


def _grow_samples(n, roles, n_samples, max_length):
    """Grow the one-token sentences by the rule, shorter ones first, by `n_samples` at most."""
    grown = [([x], x) for x in n]
    for sentence, top in grown:  # which gets longer on the way
        if len(sentence) == max_length or len(grown) == len(n) + n_samples:
            continue
        sentence = [*sentence, n[top]]
        top, low = (set(tokens).intersection(sentence) for tokens in roles[sentence[-1]])
        counts = Counter(sentence)
        if len(top) == 1 and low and top | low == set(sentence):
            (top,) = top
            if counts[top] == max(counts.values()):
                grown.append((sentence, top))
    return grown[len(n) :]


def _observed_orders(samples, n_tokens):
    """Read the pairs of each query's order, and the roles of the tokens, off the samples."""
    pairs = {query: set() for query in range(n_tokens)}
    for sentence, top in samples:
        pairs[sentence[-1]].update((top, x) for x in sentence if x != top)
    orders = {}
    for query in pairs:
        above = {x for x, _ in pairs[query]}
        below = {x for _, x in pairs[query]}
        orders[query] = {
            "optimal": sorted(above - below),
            "non_optimal": sorted(below - above),
            "confused": sorted(above & below),
            "non_comparable": sorted(set(range(n_tokens)) - above - below),
            "pairs": sorted(pairs[query]),
        }
    return orders


def _draw_unseen(rng, samples, orders, n_unseen, max_length):
    """Draw samples of new contexts in which the orders put one token on top."""
    seen = {(sentence[-1], *sorted(sentence)) for sentence, _ in samples}
    rules = {query: _unseen_rules(query, order, max_length) for query, order in orders.items()}
    queries = [query for query in rules if any(rules[query])]
    unseen = []
    for _ in range(4 * n_unseen if queries else 0):  # few tokens leave few contexts unseen
        query = queries[rng.randint(len(queries))]
        comparable, others = rules[query]
        choice = others if others and rng.random_sample() < _UNSEEN_NON_COMPARABLE else comparable
        tops, low, extra = choice[rng.randint(len(choice))]
        must = [extra[rng.randint(len(extra))]] if extra else []
        top = tops[rng.randint(len(tops))]
        sample = _draw_sentence(rng, query, top, low, max_length, must=must)
        if (query, *sorted(sample[0])) not in seen:
            unseen.append(sample)
        if len(unseen) == n_unseen:
            break
    return unseen


def _unseen_rules(query, order, max_length):
    """Two lists of rules (tops, tokens below, one of these as well) for sentences of `query`.

    The first list is for comparable tokens only. Under an order with a confused token a top has to
    be above the others in the transitive closure; with a cycle there are no rules.
    """
    top, low, free = order["optimal"], order["non_optimal"], order["non_comparable"]
    if not top:
        return [], []
    if order["confused"]:
        lower = {x: {b for a, b in order["pairs"] if a == x} for x in top + order["confused"]}
        for middle in order["confused"]:  # Warshall's algorithm
            for reached in lower.values():
                reached |= lower[middle] if middle in reached else set()
        is_cyclic = any(x in reached for x, reached in lower.items())
        return [] if is_cyclic else [([x], sorted(u), []) for x, u in lower.items()], []
    others = []
    if free and (query in top or max_length > 2):
        others.append((top, low + free, free))
    if free and query in low:
        others.append((free, low, []))
    return [(top, low, [])], others
