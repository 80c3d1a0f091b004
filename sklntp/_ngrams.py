"""How n-gram tokens and position tags are written; nothing else in the package knows.

An n-gram is its tokens, oldest first, joined by an arrow: "a→b→c". A token at distance k from the
end of its sentence is tagged "x@k": the last token is "x@0".
"""

from sklntp._rows import plain_token

ARROW = "→"
AT = "@"
_DIGITS = 9  # of a distance; "user@99999999999999999999" is no tag


def text(token):
    """A token as the str that n-grams and tags are made of; 1.0 is the token 1, as everywhere."""
    token = plain_token(token)
    return str(int(token) if isinstance(token, float) and token.is_integer() else token)


def join(tokens):
    """The n-gram of tokens, oldest first."""
    return ARROW.join(tokens)


def is_ngram(token):
    """Whether a token joins others."""
    return isinstance(token, str) and ARROW in token


def order(token):
    """How many tokens a token joins: 1 for a plain one."""
    return len(parts(token))


def parts(token):
    """The tokens that a token joins, oldest first; a plain token is its own only part."""
    return token.split(ARROW) if is_ngram(token) else [token]


def suffix(token):
    """An n-gram without its oldest token: "b→c" for "a→b→c", "b" for "a→b"; None if plain."""
    return token.partition(ARROW)[2] if is_ngram(token) else None


def suffixes(token):
    """What an n-gram backs off to, the preferred first; nothing for a plain token.

    The last token of a 2-gram is "b@0" where sentences are tagged, and "b" where they are not.
    """
    shorter = suffix(token)
    if shorter is None:
        return ()
    if is_ngram(shorter) or distance(shorter) == 0:
        return (shorter,)
    return (tag(shorter, 0), shorter)


def tag(token, k):
    """A token at distance k from the end of its sentence."""
    return f"{token}{AT}{k}"


def untag(token):
    """The token and the distance that a tagged token was written from; None for any other."""
    if not isinstance(token, str) or AT not in token:
        return None
    plain, _, digits = token.rpartition(AT)
    if not (digits.isascii() and digits.isdigit()) or (digits[0] == "0" and digits != "0"):
        return None  # "x@00" is no tag: every tag is written in one way
    if len(digits) > _DIGITS:
        return None
    return plain, int(digits)


def distance(token):
    """The distance of a tagged token from the end of its sentence; -1 for any other."""
    found = None if is_ngram(token) else untag(token)
    return -1 if found is None else found[1]
