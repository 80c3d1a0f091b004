"""
Writing Python at several temperatures
======================================

A model of next tokens writes: each token is drawn from the probabilities after those before it. Low
temperatures write valid lines, few of them different and hardly any new; high ones write ever
different lines, few of them valid.
"""

import ast

import matplotlib.pyplot as plt
import numpy as np

from sklntp import generate, make_next_token_pipeline
from sklntp.datasets import load_python_tokens
from sklntp.preprocessing import make_contexts


# %%
# The standard library's lines that are Python by themselves; of the head of a block, with "pass".
def is_python(tokens):
    """Whether a name, a number and a string in place of their tokens make valid syntax."""
    text = " ".join({"NAME": "name", "NUMBER": "1", "STRING": "''"}.get(t, t) for t in tokens)
    for line in (text, f"{text} pass"):
        try:
            ast.parse(line)
            return True
        except SyntaxError:
            pass
    return False


source = load_python_tokens(["argparse", "calendar", "functools", "typing"])
lines = [line[:-1] for line in source.sequences if len(line) <= 12 and is_python(line[:-1])]
X, y, _ = make_contexts([["<START>", *line, "<END>"] for line in lines])
pipeline = make_next_token_pipeline(max_iter=100).fit(X, y)

# %%
# 400 lines at each temperature, one of which is shown.
temperatures = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
known, shares = {tuple(line) for line in lines}, []
for temperature in temperatures:
    tokens = generate(pipeline, [["<START>"]] * 400, 20, temperature=temperature, random_state=0)
    written = [tuple(" ".join(row).split(" <END>")[0].split()) for row in tokens]
    valid = np.array([is_python(line) for line in written])
    new = np.array([line not in known for line in written])
    shares.append([valid.mean(), len(set(written)) / len(written), (valid & new).mean()])
    print(f"{temperature:4}  {' '.join(written[1])}")

# %%
# What the temperature trades for what.
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
names = ["valid Python", "different lines", "valid, not in the training lines"]
styles = [("#0072B2", "o-"), ("#D55E00", "s--"), ("#009E73", "^:")]
for share, name, (color, style) in zip(np.transpose(shares), names, styles, strict=True):
    ax.plot(temperatures, share, style, color=color, label=name)
ax.set(xlabel="temperature", ylabel="share of 400 written lines", ylim=(0, 1.02))
fig.legend(loc="outside upper center", ncols=3)
plt.show()
