"""
Attention on Python source
==========================

Lines of Python that end in the same four tokens go on differently, as they began: after ``def`` or
``if`` comes a colon, after ``return`` or ``=`` the line ends. Attention reaches back over the four
tokens to what decides.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklntp import NTPTransformerClassifier
from sklntp.datasets import load_python_tokens
from sklntp.inspection import AttentionDisplay
from sklntp.preprocessing import make_contexts

# %%
# The shorter lines of three modules of the standard library; names and literals are folded.
source = load_python_tokens(["argparse", "calendar", "functools"])
X, y, _ = make_contexts([line for line in source.sequences if len(line) <= 12])
print(f"{len(X)} contexts, for example {' '.join(X[11])} -> {y[11]}")

# %%
# The same context has several next tokens, so both matrices are trained at once, with a penalty.
clf = NTPTransformerClassifier(stages=("joint",), solver="lbfgs", alpha=0.3, max_iter=300)
print(f"training accuracy {clf.fit(X, y).score(X, y):.3f}")

# %%
# Six beginnings of one end: the share of attention that goes to the beginning. In the last there is
# nothing that decides.
beginnings = ["def", "if", "for NAME in", "return", "NAME =", "NAME ."]
sentences = [[*beginning.split(), *"NAME ( NAME )".split()] for beginning in beginnings]
for beginning, weights in zip(beginnings, clf.attention(sentences), strict=True):
    print(f"{beginning:11} {np.sum(weights[:-4]):.2f}")

# %%
# Where the model looks, and what it answers.
AttentionDisplay.from_estimator(clf, sentences)
plt.show()
