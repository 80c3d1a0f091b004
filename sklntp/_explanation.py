"""Why a sentence gets its answer: role, attention, vote and contribution of every position."""

import html
from dataclasses import dataclass

import numpy as np

from sklntp._forward import position_attention
from sklntp._rows import plain_token, probability_text, short
from sklntp._sequences import token_array
from sklntp._top_tokens import CONFUSED, NON_COMPARABLE, NON_OPTIMAL, OPTIMAL, ROLES, UNKNOWN

_MOST_ROWS = 30  # of a printed table
_WIDEST = 30  # characters of a printed token
_COLUMNS = ["position", "token", "role", "attention", "votes_for", "contribution"]
_HEADS = {"votes_for": "votes for"}
_NUMBERS = {"position": "d", "attention": ".4f", "contribution": "+z.4f"}  # their printed form


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Why one sentence gets its next token, position by position; ``print`` it.

    Attributes
    ----------
    query : str or number
        The last token of the sentence, under which its tokens are compared.
    predicted : str or number
        The next token that is predicted.
    probability : float
        Its probability.
    runner_up : str, number or None
        The second most probable next token; None where there is only one.
    runner_up_probability : float
        Its probability, NaN where there is none.
    position : ndarray of int of shape (n_positions,)
        0, 1, ...
    token : ndarray of shape (n_positions,)
        The sentence.
    role : ndarray of str of shape (n_positions,)
        What the order of the training data under the query says of the token: "optimal" (nothing
        above it, something below), "non-optimal" (the reverse), "confused" (both, as in a cycle),
        "non-comparable" (neither) or "unknown" (not in the vocabulary). Nothing is compared under
        a query that is unknown itself: all known tokens are then non-comparable.
    attention : ndarray of shape (n_positions,)
        Attention weights, as of ``attention``; they sum to 1.
    votes_for : ndarray of object of shape (n_positions,)
        The next token with the largest entry in the token's column of W_ov, None where all entries
        are equal, as of an unknown token. Of a tie `predicted` if it is among them, else the first
        in ``classes_``.
    contribution : ndarray of shape (n_positions,)
        What the position adds to the logit of `predicted`, as of ``contributions``: its attention
        times W_ov[predicted, token].
    """

    query: object
    predicted: object
    probability: float
    runner_up: object
    runner_up_probability: float
    position: np.ndarray
    token: np.ndarray
    role: np.ndarray
    attention: np.ndarray
    votes_for: np.ndarray
    contribution: np.ndarray

    def to_frame(self):
        """The table as a DataFrame of pandas, one row per position.

        Returns
        -------
        frame : pandas.DataFrame
            Columns "position", "token", "role", "attention", "votes_for" and "contribution".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "to_frame needs pandas: pip install pandas. Without it, print the explanation, or "
                "read its arrays: token, role, attention, votes_for, contribution."
            ) from error
        return pd.DataFrame({name: getattr(self, name) for name in _COLUMNS})

    def __repr__(self):
        return (
            f"<Explanation: {_shown(self.predicted)} with probability "
            f"{probability_text(self.probability)}, "
            f"from {len(self.token)} tokens>"
        )

    def __str__(self):
        first = f"next token {_shown(self.predicted)}: "
        first += f"probability {probability_text(self.probability)}"
        if self.runner_up is not None:
            first += f"; then {_shown(self.runner_up)}: {self.runner_up_probability:.3g}"
        left_out = np.ones(len(self.token), dtype=bool)
        left_out[np.argsort(-self.attention, kind="stable")[:_MOST_ROWS]] = False
        lines = [first, f"query {_shown(self.query)}", *self._table(np.flatnonzero(~left_out))]
        if left_out.any():
            lines.append(
                f"{np.count_nonzero(left_out)} positions of less attention are left out: together "
                f"attention {self.attention[left_out].sum():.4f}, "
                f"contribution {self.contribution[left_out].sum():+z.4f}"
            )
        lines.append(
            f"contributions add up to the logit of {_shown(self.predicted)}: "
            f"{self.contribution.sum():+z.4f}"
        )
        return "\n".join(lines)

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"

    def _table(self, rows):
        """The lines of some positions, aligned, below a line of column names."""
        columns = []
        for name in _COLUMNS:
            values, form = getattr(self, name)[rows].tolist(), _NUMBERS.get(name)
            cells = [_shown(value) if form is None else format(value, form) for value in values]
            cells = [_HEADS.get(name, name), *cells]
            width = max(map(len, cells))
            columns.append([c.ljust(width) if form is None else c.rjust(width) for c in cells])
        return ["  ".join(cells) for cells in zip(*columns, strict=True)]


def _shown(token):
    """A token as text of one short line, quoted where it would not be seen for what it is."""
    if token is None:
        return "-"
    token = plain_token(token)
    if not isinstance(token, str):
        return short(token)
    plain = token.isprintable() and token == token.strip() and token not in ("", "-")
    if plain and len(token) <= _WIDEST:
        return token
    return short(token)


def explain_sentence(clf, sentence):
    """The explanation of one sentence by a fitted `NTPTransformerClassifier`."""
    tokens = _read_sentence(sentence)
    codes, offsets = clf._codes([tokens])
    output, classes = clf._output(), clf.classes_.tolist()
    top, p = (row[0].tolist() for row in clf._top_codes(codes, offsets, 2))
    attention = position_attention(codes, offsets, clf._attention())
    distinct, inverse = np.unique(codes, return_inverse=True)
    votes = [_vote(output, token, top[0]) for token in distinct]
    return Explanation(
        query=tokens[-1],
        predicted=classes[top[0]],
        probability=p[0],
        runner_up=classes[top[1]] if len(top) > 1 else None,
        runner_up_probability=p[1] if len(p) > 1 else np.nan,
        position=np.arange(len(codes)),
        token=token_array(tokens),
        role=_roles(clf, codes),
        attention=attention,
        votes_for=np.array([None if v is None else classes[v] for v in votes], object)[inverse],
        contribution=attention * output.lookup(np.full(len(codes), top[0]), codes),
    )


def _read_sentence(sentence):
    """One sequence of tokens as a list; anything that is none, or several, is refused."""
    if isinstance(sentence, (str, bytes)):
        raise ValueError(
            "explain takes one sentence, split into tokens, a sequence of str or int; got the "
            f"string {short(sentence)}. For words use text.split(), for letters list(text)."
        )
    for name in ("to_list", "to_pylist"):  # a Series of pandas or polars; Arrow
        if hasattr(sentence, name):
            sentence = getattr(sentence, name)()
    is_array = isinstance(sentence, np.ndarray) and sentence.ndim > 0
    is_table = hasattr(sentence, "columns")
    if not (isinstance(sentence, (list, tuple)) or is_array or is_table):
        raise TypeError(
            "explain takes one sentence, a list, tuple, array or Series of tokens; got "
            f"{type(sentence).__name__} {short(sentence)}."
        )
    nested = [] if is_table else [_is_sequence(token) for token in sentence]
    if any(nested) and not all(nested):
        where = nested.index(True)
        raise TypeError(
            f"Position {where}: a token must be a str or an int; got "
            f"{type(sentence[where]).__name__} {short(sentence[where])}."
        )
    if is_table or (is_array and sentence.ndim > 1) or any(nested):
        raise ValueError(
            "explain takes one sentence, not a collection of them: explain(X[0]), not explain(X). "
            "Behind the transformers of a pipeline it is "
            "pipeline[-1].explain(pipeline[:-1].transform([sentence])[0])."
        )
    if not len(sentence):
        raise ValueError("The sentence is empty; explain needs at least one token.")
    return list(map(plain_token, sentence))


def _is_sequence(token):
    return hasattr(token, "__len__") and not isinstance(token, (str, bytes))


def _roles(clf, codes):
    """The role of each position, under the last one as query."""
    vocabulary, order = clf.vocabulary_.tolist(), clf._partial_order(codes[-1])
    compared = dict.fromkeys(order.optimal, OPTIMAL)
    compared |= dict.fromkeys(order.non_optimal, NON_OPTIMAL)
    compared |= dict.fromkeys(order.confused, CONFUSED)
    known = codes < len(vocabulary)
    role = np.full(len(codes), UNKNOWN)
    role[known] = [compared.get(vocabulary[code], NON_COMPARABLE) for code in codes[known]]
    return np.array(ROLES)[role]


def _vote(output, token, predicted):
    """The class with the largest W_ov[class, token], None where all are equal."""
    if token == len(output.base):  # unknown
        return None
    own = slice(*output.offsets[token : token + 2])
    column = np.full(output.n_classes, output.base[token])
    column[output.classes[own]] = output.value[own]
    if column.max() == column.min():
        return None
    return predicted if column[predicted] == column.max() else int(np.argmax(column))
