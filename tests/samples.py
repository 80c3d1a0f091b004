"""Small data sets of the numerics tests; tokens are the numbers 0, 1, ..."""

import numpy as np

from sklntp.datasets import make_realizable_ntp

CYC_X, CYC_Y = [[0], [1], [2]], [1, 2, 0]
CHAIN_X, CHAIN_Y = [*CYC_X, [0, 1, 2], [1, 2]], [*CYC_Y, 1, 2]


def realizable(seed, **kwargs):
    """X and y over 6 to 8 tokens, which are the next tokens too: nothing needs encoding."""
    data = make_realizable_ntp(6 + seed % 3, 26, max_length=5, random_state=seed, **kwargs)
    return data.X, data.y.tolist()


def conflicting(seed):
    """X, y and weights that break every assumption.

    Of the tokens 0 to 6 two have the same next token and two have several; sentences repeat
    tokens, some stand there twice with different next tokens, and no token produces the next
    token 8.
    """
    rng = np.random.RandomState(seed)
    first, second, third, *rest = rng.permutation(8).tolist()
    following = [[first], [first], [second], [third], [second, rest[0]], rest[:3], [rest[3]]]
    X = [[x] for x, classes in enumerate(following) for _ in classes]
    y = [v for classes in following for v in classes]
    for i in range(36):
        among = [0, 2, 3] if i % 3 == 0 else range(7)  # the three with one next token of their own
        sentence = rng.choice(among, size=rng.randint(2, 6)).tolist()
        classes = following[sentence[rng.randint(len(sentence))]]
        X.append(sentence)
        y.append(int(rng.choice(classes) if rng.random_sample() < 0.7 else rng.randint(8)))
    X += X[-8:]
    y += [8] + rng.randint(9, size=7).tolist()
    return X, y, rng.uniform(0.5, 2.0, size=len(X))
