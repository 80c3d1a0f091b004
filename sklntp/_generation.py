"""Continue sentences: each next token that is drawn becomes the last token of its sentence.

One uniform number u per generated token, drawn before the first step, decides it: the first class
whose cumulated weight exceeds u times the total. So neither blocks nor later prompts change a
result, and a class of weight zero is never drawn, rounding or not.
"""

import sys
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sklntp._context_transformers import write_sentences
from sklntp._memory import check_memory
from sklntp._ngrams import is_ngram, parts, text, untag
from sklntp._sequences import read_sequences, short

_BLOCK = 1 << 21  # probabilities that are held at a time


def generate(estimator, X, n_tokens, *, temperature=1.0, top_k=None, random_state=None):
    """Continue sentences token by token, with any fitted classifier of sequences.

    Each next token is appended to its sentence, becomes the query there, and the classifier is
    asked again. Of a pipeline give the whole: its transformers then see the sentence as it is at
    every step.

    Parameters
    ----------
    estimator : object
        A fitted classifier with ``classes_``, ``predict`` and ``predict_log_proba``: an
        :class:`~sklntp.NTPTransformerClassifier`, a :class:`~sklearn.pipeline.Pipeline` such as
        that of :func:`~sklntp.make_next_token_pipeline`, a search over one.

    X : array-like of sequences
        The prompts, in any form that :class:`~sklntp.NTPTransformerClassifier` takes. Each has at
        least one token, which the classifier need not know.

    n_tokens : int
        How many tokens to generate for each prompt, at least 1.

    temperature : float, default=1.0
        Draw a next token of probability p with probability proportional to p^(1 / temperature).
        0: take the most probable one, as ``predict`` says.

    top_k : int, default=None
        Draw among the `top_k` most probable next tokens only; of equally probable ones those
        earlier in ``classes_`` come first. None, or as many as there are: among all. 1: take the
        most probable one.

    random_state : int, RandomState instance or None, default=None
        Seed of the draws. With an int, the same prompts give the same tokens, and further prompts
        after them change none of these.

    Returns
    -------
    tokens : ndarray of shape (n_prompts, n_tokens)
        Next tokens, all of ``classes_`` and of its dtype.

    Raises
    ------
    ValueError
        If a parameter is out of range, a prompt is empty, or next tokens cannot be fed back:
        because `estimator` knows none of them in sentences, or is the last step of a pipeline whose
        transformers wrote the tokens it knows.
    TypeError
        If a parameter is no number, or next tokens are numbers where prompts hold str, or str where
        these hold numbers.
    MemoryError
        Before the work, if the result would not fit into the memory that is available.

    Notes
    -----
    A token costs one call of the classifier for all prompts, or, if probabilities of all prompts
    and classes would take more than 16 MB, for as many as these hold.

    Examples
    --------
    >>> from sklntp import generate, make_next_token_pipeline
    >>> from sklntp.preprocessing import make_contexts
    >>> X, y, groups = make_contexts([list("abcabcab"), list("acbacbac")])
    >>> pipeline = make_next_token_pipeline().fit(X, y)
    >>> generate(pipeline, [["a", "b"], ["a", "c"]], 6, temperature=0)
    array([['c', 'a', 'b', 'c', 'a', 'b'],
           ['b', 'a', 'c', 'b', 'a', 'c']], dtype='<U1')
    >>> generate(pipeline, [["a"]] * 3, 4, random_state=0).shape
    (3, 4)
    """
    n_tokens = check_count("n_tokens", n_tokens)
    temperature = _check_temperature(temperature)
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        check_is_fitted(estimator)
        raise TypeError(f"{type(estimator).__name__} has no classes_: it is no classifier.")
    top_k = len(classes) if top_k is None else check_count("top_k", top_k)
    sequences = read_sequences(None, X, reset=False)
    if n_tokens > 1:
        _check_feedback(estimator, classes.tolist(), sequences.tokens)
    prompts = write_sentences(sequences.tokens, sequences.codes, sequences.lengths)

    check_memory("The result of generate", (len(prompts), n_tokens), "Ask for fewer at a time.")
    greedy = temperature == 0 or top_k == 1
    generated = np.empty((len(prompts), n_tokens), dtype=classes.dtype)
    if not greedy:
        uniform = check_random_state(random_state).random_sample(generated.shape)
    size = max(1, _BLOCK // len(classes))
    for start in range(0, len(prompts), size):
        rows = slice(start, start + size)
        sentences = prompts[rows]
        for t in range(n_tokens):
            if t > 0:
                sentences = _append(sentences, generated[rows, t - 1])
            if greedy:  # log-probabilities may round different logits to a tie
                generated[rows, t] = estimator.predict(sentences)
            else:
                with np.errstate(divide="ignore"):  # many classifiers take logarithms of zeros
                    log_p = np.asarray(estimator.predict_log_proba(sentences), dtype=np.float64)
                chosen = _draw(log_p, uniform[rows, t], temperature, top_k)
                generated[rows, t] = classes[chosen]
    return generated


def top_classes(scores, k):
    """The codes of the `k` largest scores of each row, the largest first, ties by their codes.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
    k : int
        All classes if it is more.

    Returns
    -------
    ndarray of shape (n, min(k, n_classes))
    """
    n, n_classes = scores.shape
    if k >= n_classes:
        return np.argsort(-scores, axis=1, kind="stable")
    kth = np.partition(scores, n_classes - k, axis=1)[:, [n_classes - k]]
    kept, tied = scores > kth, scores == kth
    room = k - np.count_nonzero(kept, axis=1)[:, None]
    kept |= tied & (np.cumsum(tied, axis=1) <= room)
    codes = np.nonzero(kept)[1].reshape(n, k)
    order = np.argsort(-np.take_along_axis(scores, codes, axis=1), axis=1, kind="stable")
    return np.take_along_axis(codes, order, axis=1)


def check_count(name, value):
    """The parameter `name` as an int of at least 1."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(
            f"{name} must be an integer; got {short(value)} of type {type(value).__name__}."
        )
    if value < 1:
        raise ValueError(f"{name} must be at least 1; got {value}.")
    return int(value)


def _check_temperature(temperature):
    if not isinstance(temperature, Real) or isinstance(temperature, bool):
        raise TypeError(
            f"temperature must be a number; got {short(temperature)} of type "
            f"{type(temperature).__name__}."
        )
    if not 0 <= temperature <= sys.float_info.max:  # neither is NaN
        raise ValueError(
            f"temperature must be a finite number of at least 0; got {short(temperature)}."
        )
    return float(temperature)


def _check_feedback(estimator, classes, tokens):
    """Refuse next tokens that would be other, or no, tokens in the sentences they are put into."""
    name = type(estimator).__name__
    vocabulary = getattr(estimator, "vocabulary_", None)
    if vocabulary is not None:
        vocabulary = set(vocabulary)  # of an array, or the keys of a dict
        written = _written(vocabulary, classes)
        why = None
        if written is not None:
            why = f"{name} knows tokens that a transformer wrote, such as {short(written)}"
        elif vocabulary.isdisjoint(classes):
            why = f"{name} knows none of its next tokens in sentences"
        if why is not None:
            raise ValueError(
                f"Next tokens cannot be fed back: {why}. If it is the last step of a pipeline, "
                "generate with the whole: sklntp.generate(pipeline, X, n_tokens)."
            )
    for token in (*tokens[:1], *classes):
        if isinstance(token, bool) or not isinstance(token, (str, int, float)):
            raise TypeError(
                f"Next tokens that are fed back must be str or numbers; got {short(token)}."
            )
    if tokens and isinstance(tokens[0], str) != isinstance(classes[0], str):
        raise TypeError(
            "Next tokens that are fed back must be of the type of the tokens in X: X holds "
            f"{short(tokens[0])}, but classes_[0] is {short(classes[0])}."
        )


def _written(vocabulary, classes):
    """The first token that a transformer wrote from next tokens, None if there is none."""
    names = set(map(text, classes))

    def sources(token):
        return parts(token) if is_ngram(token) else (untag(token) or ())[:1]

    written = (t for t in vocabulary if t not in names and (s := sources(t)) and names >= set(s))
    return min(written, default=None)


def _append(sentences, tokens):
    """New sentences, each with one more token."""
    # In ragged sentences a number is an int; 1.0 is the token 1, as everywhere.
    tokens = [
        int(token) if isinstance(token, float) and token.is_integer() else token
        for token in tokens.tolist()
    ]
    grown = ([*sentence, token] for sentence, token in zip(sentences, tokens, strict=True))
    return np.fromiter(grown, dtype=object, count=len(sentences))


def _draw(log_p, uniform, temperature, top_k):
    """One class code per row, drawn with weights p^(1 / temperature)."""
    candidates = top_classes(log_p, top_k) if top_k < log_p.shape[1] else None
    if candidates is not None:
        log_p = np.take_along_axis(log_p, candidates, axis=1)
    with np.errstate(over="ignore", under="ignore"):
        # Relative to the largest, which stays 0 however small the temperature is.
        weight = np.exp((log_p - log_p.max(axis=1, keepdims=True)) / temperature)
        total = np.cumsum(weight, axis=1)
        chosen = np.count_nonzero(total <= (uniform * total[:, -1])[:, None], axis=1)
    if candidates is None:
        return chosen
    return candidates[np.arange(len(chosen)), chosen]
