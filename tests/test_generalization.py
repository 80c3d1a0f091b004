"""What the theory says for certain, against orders solved by hand and exact references."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from data import CHAIN, CONFLICT, CYC, FORMS, ONE, fitted, plus
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklntp import NTPTransformerClassifier
from sklntp._generalization import _cell, generalization_report
from sklntp._top_tokens import CertainOrder
from sklntp.datasets import make_realizable_ntp

SEVERAL_TOPS = "several top tokens with different next tokens"
NOT_COMPARED = "top tokens that the order does not compare"


def limit(data, **params):
    """The exact limit, at a norm where every strict comparison decides."""
    return fitted(data, solver="max_margin", step_size=1e4, max_iter=1, **params)


def letters(alone, *samples, **params):
    """Tokens `alone` are followed by their capital; "abq" -> "A" is one more sentence."""
    X = [*map(list, alone), *(list(sentence) for sentence, _ in samples)]
    y = [*(x.upper() for x in alone), *(label for _, label in samples)]
    return limit((X, y), collocation="single", **params)


def verdict(clf, sentence):
    """The determined next token, or the reason why there is none."""
    report = generalization_report(clf, [list(sentence)])
    answer, reason = report.determined[0], report.reason[0]
    assert (answer is None) == (reason != "")
    assert report.n_determined == (answer is not None)
    return answer or reason


def weights(clf, query):
    """token -> W_kq*[token, query], 0 for unknown ones."""
    tokens = clf.vocabulary_.tolist()
    column = clf.max_margin_coef_kq_[:, tokens.index(query)]
    return dict(zip(tokens, column.round(9).tolist(), strict=True))


# The rules, one by one


def test_a_pair_and_its_ranks_decide():
    clf = letters("abcd", ("abc", "A"))  # under c: a above b and c
    assert verdict(clf, "ac") == verdict(clf, "abc") == verdict(clf, "cbac") == "A"
    assert verdict(clf, "adc") == "A"  # optimal over non-comparable
    assert verdict(clf, "dbc") == "D"  # non-comparable over non-optimal
    assert verdict(clf, "bc") == f"{SEVERAL_TOPS}: 'b', 'c'"
    assert verdict(clf, "c") == verdict(clf, "cc") == "C"
    assert verdict(clf, "ab") == f"{SEVERAL_TOPS}: 'a', 'b'"  # b has no order


def test_a_path_over_a_token_that_is_not_in_the_sentence_decides():
    clf = letters("abcde", ("abe", "A"), ("bce", "B"), ("cde", "C"))
    assert weights(clf, "e") == {"a": 1.8, "b": 0.8, "c": -0.2, "d": -1.2, "e": -1.2}
    report = generalization_report(clf, [list("ade"), list("ace"), list("bde")])
    assert report.determined.tolist() == ["A", "A", "B"]
    assert report.roles[0] == {"a": "optimal", "d": "non-optimal", "e": "non-optimal"}
    assert report.roles[2]["b"] == "confused"


def test_a_confused_token_takes_away_the_rank_of_what_it_meets():
    clf = letters("xcban", ("xcb", "X"), ("cb", "C"), ("ab", "A"))  # x > c > b, a > b
    assert weights(clf, "b") == {"a": 0, "b": -1, "c": 0, "n": 0, "x": 1}
    assert verdict(clf, "anb") == f"{NOT_COMPARED}: 'a', 'n'"  # both are 0
    assert verdict(clf, "acb") == f"{NOT_COMPARED}: 'a', 'c'"
    assert verdict(clf, "xab") == f"{SEVERAL_TOPS}: 'x', 'a'"
    assert verdict(clf, "ab") == "A"
    assert verdict(clf, "azb") == "A"  # w_a >= 0, and the unknown token has no vote


def test_away_from_confused_tokens_ranks_stay():
    clf = letters("xcband", ("xcb", "X"), ("cb", "C"), ("adb", "A"))  # as before, with a > d
    assert weights(clf, "b") == {"a": 0.5, "b": -1, "c": 0, "d": -0.5, "n": 0, "x": 1}
    assert verdict(clf, "anb") == "A"
    assert verdict(clf, "ndb") == "N"


def test_an_unknown_token_in_the_orders_stands_at_zero():
    known = ["a", "b", "e", "n"]
    clf = letters("aben", ("azb", "A"), vocabulary=known)  # a > unknown, a > b
    assert weights(clf, "b") == {"a": 1, "b": 0, "e": 0, "n": 0}
    assert verdict(clf, "anb") == verdict(clf, "ayb") == "A"
    assert verdict(clf, "nb") == f"{NOT_COMPARED}: 'n', 'b'"  # both are 0
    clf = letters("aben", ("azb", "A"), ("eb", "E"), vocabulary=known)
    assert weights(clf, "b") == {"a": 1, "b": -0.5, "e": 0.5, "n": 0}
    assert verdict(clf, "nb") == "N"
    assert verdict(clf, "enb") == "E"
    clf = letters("abden", ("azb", "A"), ("edb", "E"), vocabulary=[*known, "d"])
    assert verdict(clf, "dzb") == "unknown top token: 'z'"  # d and b are below it
    clf = letters("aben", ("ab", "A"), ("zb", "B"), vocabulary=known)  # a > b > unknown
    assert weights(clf, "b") == {"a": 2, "b": 1, "e": 0, "n": 0}
    assert generalization_report(clf, [list("zb")]).roles == [{"z": "unknown", "b": "confused"}]
    assert verdict(clf, "nb") == "B"


def test_a_cycle_shares_one_value():
    clf = limit(CONFLICT)  # a and b are above each other under b
    assert weights(clf, "b") == {"a": 0, "b": 0, "c": 0}
    assert verdict(clf, "ab") == f"{NOT_COMPARED}: 'a', 'b'"
    assert verdict(clf, "cb") == f"{NOT_COMPARED}: 'c', 'b'"
    assert verdict(clf, "bz") == "unknown query: 'z'"
    assert verdict(clf, "zb") == "c"


def test_a_cycle_above_all_others_has_the_rank_of_an_optimal_token():
    clf = letters("abdn", ("adb", "A"), ("ab", "B"))
    assert weights(clf, "b") == pytest.approx({"a": 1 / 3, "b": 1 / 3, "d": -2 / 3, "n": 0})
    report = generalization_report(clf, [list("nb"), list("db"), list("dnb")])
    assert report.determined.tolist() == ["B", "B", "B"]
    assert report.pattern.tolist() == [
        "confused + non-comparable",
        "confused + non-optimal",
        "confused + non-comparable + non-optimal",
    ]


def test_a_cycle_below_all_others_has_the_rank_of_a_non_optimal_token():
    clf = letters("abdn", ("dab", "D"), ("ab", "A"), ("ab", "B"))
    assert weights(clf, "b") == pytest.approx({"a": -1 / 3, "b": -1 / 3, "d": 2 / 3, "n": 0})
    assert verdict(clf, "nab") == "N"
    assert verdict(clf, "db") == "D"


# Votes and reasons


def test_tops_that_agree_determine_the_answer():
    X = [["a"], ["b"], ["c"]]
    clf = limit((X, ["v", "v", "w"]))
    report = generalization_report(clf, [["a", "b"], ["b", "b", "a"], ["a", "c"]])
    assert report.determined.tolist() == ["v", "v", None]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("mb", "top token with several next tokens: 'm'"),
        ("nmb", "top token with several next tokens: 'm'"),  # one agrees, one may not
        ("hb", "top token without next token: 'h'"),
        ("zhb", "top token without next token: 'h'"),
        ("zb", "unknown top token: 'z'"),
        ("yzzb", "unknown top token: 'y', 'z'"),
        ("nhb", "N"),  # h ties with n, and has no vote
        ("nzb", "N"),
        ("azhb", "A"),
        ("nab", "A"),
        ("yaz", "unknown query: 'z'"),
        ("b", "B"),
        ("h", "top token without next token: 'h'"),
    ],
)
def test_reasons_name_the_tokens(sentence, expected):
    X = [*"abnmm", "ab", "bh"]
    data = [list(s) for s in X], ["A", "B", "N", "M", "N", "A", "H"]
    clf = limit(data, collocation="single")  # a above b under b; m has two, h has no next token
    assert verdict(clf, sentence) == expected


def test_a_token_without_vote_that_may_be_alone_on_top_leaves_the_answer_open():
    data = plus(CHAIN, (["d", "a"], "b"))  # d has no next token, and no order under c
    clf = limit(data, collocation="single")
    assert verdict(clf, "bdc") == "top token without next token: 'd'"
    assert verdict(clf, "bzc") == "unknown top token: 'z'"
    assert weights(clf, "c")["b"] == 0


# Against the exact reference


def random_data(seed):
    """Deep and cyclic orders; tokens with one, several, shared or no next tokens; unknown ones."""
    rng = np.random.RandomState(seed)
    n = rng.randint(4, 9)
    following = {x: [x] for x in range(n)}
    following |= [{}, {0: [1]}, {0: [1], 2: []}, {0: [1], 2: [], 3: [3, 0]}][seed % 4]
    X = [[x] for x, labels in following.items() for _ in labels]
    y = [v for labels in following.values() for v in labels]
    for _ in range(rng.randint(1, 14)):
        sentence = [*rng.randint(n, size=rng.randint(1, 4)).tolist(), int(rng.choice([0, 1]))]
        X.append(sentence)
        y.append(int(rng.choice(sum((following[x] for x in sentence), []))))
    return X, y, list(range(n - 1)) if seed % 3 == 0 else None


def check_against_reference(clf, sentences):
    """Sound: the exact top tokens agree wherever an answer is determined. Counts of both."""
    report = generalization_report(clf, sentences)
    tokens, collocation = clf.vocabulary_.tolist(), clf.collocation_
    coef = np.vstack([clf.max_margin_coef_kq_, np.zeros(len(tokens))])
    code = {token: k for k, token in enumerate(tokens)}
    n_exact = 0
    for i, sentence in enumerate(sentences):
        if sentence[-1] not in code:
            assert report.determined[i] is None
            continue
        w = {x: coef[code.get(x, -1), code[sentence[-1]]] for x in sentence}
        votes = [set(collocation.get(x, ())) for x in w if w[x] > max(w.values()) - 1e-7]
        said = set().union(*votes)
        exact = len(said) == 1
        n_exact += exact
        if report.determined[i] is not None:
            assert exact and report.determined[i] in said, (sentence, w)
    assert report.n_determined == 0 or report.accuracy == 1.0
    return report.n_determined, n_exact


def few_tokens(tokens, queries):
    """All sentences of up to three distinct tokens and one of the queries."""
    few = [c for size in range(4) for c in combinations(tokens, size)]
    return [[*c, q] for q in queries for c in few]


def test_what_is_determined_is_so_in_the_exact_limit():
    n_determined = n_exact = 0
    for seed in range(120):
        X, y, vocabulary = random_data(seed)
        clf = limit((X, y), collocation="single", vocabulary=vocabulary)
        sentences = few_tokens([*clf.vocabulary_.tolist(), 99], [0, 1])
        counts = check_against_reference(clf, sentences)
        n_determined, n_exact = n_determined + counts[0], n_exact + counts[1]
    assert 0.8 * n_exact < n_determined < n_exact


def test_certain_comparisons_hold_in_the_exact_limit():
    found = {"greater": 0, "equal": 0, "not seen": 0}
    for seed in range(120):
        X, y, vocabulary = random_data(seed)
        clf = limit((X, y), collocation="single", vocabulary=vocabulary)
        n_tokens = len(clf.vocabulary_)
        coef = np.vstack([clf.max_margin_coef_kq_, np.zeros(n_tokens)])
        order = CertainOrder(clf._orders)
        entry = {key: k for k, key in enumerate(order.keys.tolist())}
        for q in (0, 1):
            keys = [q * (n_tokens + 1) + x for x in range(n_tokens + 1)]
            node = order.node[[entry.get(key, len(entry)) for key in keys]].astype(np.int64)
            low, high = order.low[node][:, None], order.high[node]
            paths = np.isin(node[:, None] * order.n_nodes + node, order._paths(np.unique(node)))
            gap = coef[:, [q]] - coef[:, q]
            greater = (low > high) | paths
            assert (gap[greater] > 1e-7).all()
            assert (gap[paths] > 1 - 1e-7).all()
            assert (gap[low >= high] > -1e-7).all()
            found["greater"] += greater.sum()
            found["equal"] += ((low >= high) & ~greater).sum()
            found["not seen"] += ((gap > 1e-7) & ~greater).sum()
    assert found["greater"] > 3 * found["not seen"] and found["equal"] > 1000


@pytest.mark.parametrize("broken", ["confused", "cyclic", "minority", "non_injective", None])
def test_generated_data_agree_with_the_exact_limit(broken):
    counts = []
    for seed in range(6):
        data = make_realizable_ntp(9, 60, break_assumption=broken, random_state=seed)
        sentences = few_tokens(range(9), range(9))
        counts.append(check_against_reference(limit((data.X, data.y)), sentences))
    n_determined, n_exact = np.sum(counts, axis=0)
    assert n_determined > 0.8 * n_exact


@pytest.mark.parametrize("broken", [None, "minority", "non_injective"])
def test_without_confused_tokens_pairs_and_ranks_say_all(broken):
    """The rule of the paper, written down naively."""
    rank = {"optimal": 1, "non_comparable": 0, "non_optimal": -1}
    for seed in range(6):
        data = make_realizable_ntp(9, 60, break_assumption=broken, random_state=seed)
        sentences = few_tokens(range(9), range(9))
        report = generalization_report(limit((data.X, data.y)), sentences)
        for sentence, answer, roles in zip(sentences, report.determined, report.roles, strict=True):
            order = data.partial_orders[sentence[-1]]
            ranks = {x: rank[role] for role in rank for x in order[role] if x in sentence}
            assert {x: role.replace("-", "_") for x, role in roles.items()} == {
                x: role for x in sentence for role in rank if x in order[role]
            }
            said = {
                data.collocation[x]
                for x in ranks
                if not any(ranks[u] > ranks[x] or (u, x) in order["pairs"] for u in ranks)
            }
            assert answer == (said.pop() if len(said) == 1 else None)


def test_unseen_sentences_of_realizable_data_are_all_determined():
    for seed in range(20):
        data = make_realizable_ntp(random_state=seed)
        clf = NTPTransformerClassifier(solver="max_margin").fit(data.X, data.y)
        report = generalization_report(clf, data.X_unseen, data.y_unseen)
        assert report.determined.tolist() == data.y_unseen.tolist()
        assert report.n_determined == len(data.X_unseen) > 100
        assert report.accuracy == 1.0 and report.undetermined == []
        assert all(row["determined_is_y"] == 1.0 for row in report.summary)


def test_gradient_descent_gives_the_determined_answers():
    data = make_realizable_ntp(random_state=0)
    clf = NTPTransformerClassifier().fit(data.X, data.y)
    assert generalization_report(clf, data.X_unseen).accuracy == 1.0
    uniform = NTPTransformerClassifier(stages=("ov",)).fit(data.X, data.y)
    assert generalization_report(uniform, data.X_unseen).accuracy < 0.9


# Invariances, forms of input, refusals


def test_names_of_tokens_and_order_of_sentences_do_not_matter():
    X, y, _ = random_data(3)
    clf = limit((X, y), collocation="single")
    sentences = few_tokens([*range(len(clf.vocabulary_)), 99], [0, 1])
    report = generalization_report(clf, sentences)
    rng = np.random.RandomState(0)
    name = dict(enumerate(rng.permutation(100).tolist()))
    renamed = limit(([[name[x] for x in s] for s in X], y), collocation="single")
    rows = rng.permutation(len(sentences))
    other = generalization_report(renamed, [[name[x] for x in sentences[i]] for i in rows])
    assert other.determined.tolist() == report.determined[rows].tolist()
    assert other.pattern.tolist() == report.pattern[rows].tolist()
    assert other.roles == [{name[x]: r for x, r in report.roles[i].items()} for i in rows]
    assert 30 < report.n_determined < len(sentences) - 30


def test_all_forms_of_input_give_the_same_report():
    sentences = [["b", "a", "b"], ["c", "a"], ["a", "b", "c", "z"]]
    clf = fitted(ONE)
    for convert in FORMS.values():
        report = generalization_report(clf, convert(sentences))
        assert report.determined.tolist() == ["b", None, None]
        assert list(report.roles[2]) == ["a", "b", "c", "z"]
    table = np.array([[3, 1], [1, 2], [2, 2]])
    clf = limit((table, [1, 2, 3]), collocation="last")
    for X in (table, pd.DataFrame(table), table.tolist()):
        report = generalization_report(clf.fit(X, [1, 2, 3]), X)
        assert report.roles == [
            {3: "non-optimal", 1: "optimal"},
            {1: "non-optimal", 2: "optimal"},
        ] + [{2: "optimal"}]
        assert all(type(token) is int for roles in report.roles for token in roles)


def test_one_sentence_is_judged_alike_among_others_and_in_chunks(monkeypatch):
    clf = limit(CHAIN)
    sentences = few_tokens(["a", "b", "c", "z"], ["a", "b", "c", "z"])
    together = generalization_report(clf, sentences)
    monkeypatch.setattr("sklntp._top_tokens._CHUNK", 1)
    monkeypatch.setattr("sklntp._top_tokens._ROWS", 1)
    in_chunks = generalization_report(clf, sentences)
    assert in_chunks.reason.tolist() == together.reason.tolist()
    assert in_chunks.determined.tolist() == together.determined.tolist()
    for i, sentence in enumerate(sentences):
        alone = generalization_report(clf, [sentence])
        assert alone.determined[0] == together.determined[i]
        assert alone.reason[0] == together.reason[i]
        assert alone.roles[0] == together.roles[i]


def test_only_top_tokens_count_and_are_named():
    letters = [list(word) for word in ("a", "b", "n", "m", "m")]
    clf = limit(([*letters, ["a", "b"]], ["A", "B", "N", "M", "N", "A"]))
    # m has two next tokens but cannot be the top one: nothing is above a, and m is not compared ...
    report = generalization_report(clf, [list("amb")])
    assert report.determined[0] == "A" and report.reason[0] == ""
    clf = limit(([*letters, ["k"]], ["A", "B", "N", "M", "N", "K"]))
    report = generalization_report(clf, [list("knmb")])
    assert report.reason[0].endswith(": 'k', 'n', 'm', 'b'")


def test_y_of_another_kind_is_refused_and_an_unknown_one_is_wrong():
    clf = fitted(ONE)
    with pytest.raises(TypeError, match="y holds numbers, but the next tokens .* are str"):
        generalization_report(clf, [["a"]], [1])
    assert generalization_report(clf, [["a"]], ["q"]).summary[0]["predicted_is_y"] == 0.0


@pytest.mark.parametrize("y", [None, [], np.empty(0, dtype=int)])
def test_no_sentences_give_an_empty_report(y):
    report = generalization_report(fitted(ONE), [], y)
    assert report.n_determined == 0 and np.isnan(report.accuracy)
    assert report.summary == report.undetermined == report.roles == []
    assert "undetermined: 0" in str(report)


def test_what_is_no_fitted_classifier_is_refused():
    with pytest.raises(NotFittedError):
        generalization_report(NTPTransformerClassifier(), [["a"]])
    pipeline = make_pipeline(NTPTransformerClassifier()).fit(*CYC)
    for wrong in (LogisticRegression(), pipeline, NTPTransformerClassifier, None):
        with pytest.raises(TypeError, match="has no collocation_"):
            generalization_report(wrong, [["a"]])


def test_wrong_next_tokens_and_unknown_tokens_are_refused():
    clf = fitted(ONE)
    with pytest.raises(ValueError, match="2 sentences in X, 1 next tokens in y"):
        generalization_report(clf, [["a"], ["b"]], ["b"])
    with pytest.raises(ValueError, match="Unknown tokens"):
        generalization_report(fitted(ONE, handle_unknown="error"), [["z"]])


# The summary


def test_the_summary_counts_by_pattern():
    clf = fitted(ONE)  # a above b under b
    X = [["a", "b"], ["a", "a", "b"], ["c", "b"], ["a", "c"], ["a", "z"], ["y", "z"]]
    report = generalization_report(clf, X, ["b", "other", "a", "a", "b", "b"])
    assert report.determined.tolist() == ["b", "b", "a", None, None, None]
    assert report.correct.tolist() == [True, True, True, False, False, False]
    rows = {row.pop("pattern"): list(row.values()) for row in report.summary}
    tie = float(report.predicted[3] == "a")
    np.testing.assert_equal(
        rows,
        {
            "optimal + non-optimal": [2, 2, 1.0, 0.5, 0.5],
            "unknown query": [2, 0, np.nan, np.nan, np.mean(report.predicted[4:] == "b")],
            "non-comparable": [1, 0, np.nan, np.nan, tie],
            "non-comparable + non-optimal": [1, 1, 1.0, 1.0, 1.0],
        },
    )
    assert report.undetermined == [
        {"pattern": "unknown query", "reason": "unknown query", "sentences": 2},
        {"pattern": "non-comparable", "reason": SEVERAL_TOPS, "sentences": 1},
    ]
    assert "determined is y" in str(report)
    without = generalization_report(clf, X)
    assert without.y is None and np.isnan(without.summary[0]["determined_is_y"])
    assert "is y" not in str(without) and "3 of 6 sentences" in repr(without)


def test_wrong_answers_count_and_undetermined_ones_do_not():
    clf = fitted(plus(CYC, (["a", "b"], "b")), stages=("ov",))  # attention by count
    X = [["a", "b", "b"], ["a", "a", "b"], ["a", "c"], ["a", "z"]]
    report = generalization_report(clf, X)
    assert report.determined.tolist() == ["b", "b", None, None]
    assert report.predicted[:2].tolist() == ["c", "b"]
    assert report.accuracy == 0.5 and report.n_determined == 2


def test_accuracy_is_shown_as_one_only_if_all_are_right():
    assert [_cell(a) for a in (1.0, 0.99999, 0.5, np.nan)] == ["1.0000", "0.9999", "0.5000", "-"]


def test_the_printed_report_to_the_letter():
    """The docstring's example passes with other spaces, too."""
    X = [["a", "b"], ["a", "a", "b"], ["c", "b"], ["a", "c"], ["y", "z"]]
    assert str(generalization_report(fitted(ONE), X)).splitlines() == [
        "pattern                       sentences  determined  accuracy",
        "optimal + non-optimal                 2           2    1.0000",
        "non-comparable                        1           0         -",
        "non-comparable + non-optimal          1           1    1.0000",
        "unknown query                         1           0         -",
        "all                                   5           3    1.0000",
        "undetermined: 2",
        "  1  non-comparable: several top tokens with different next tokens",
        "  1  unknown query",
    ]
