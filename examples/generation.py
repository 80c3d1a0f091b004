"""
Generating sequences
====================

A model of next tokens writes sequences: token by token, each drawn from the probabilities after the
tokens before. The temperature says how closely it keeps to the most probable ones.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklntp import generate, make_next_token_pipeline
from sklntp.preprocessing import make_contexts

# %%
# Command sequences of one grammar: open, then edits and tests, then commit and push.
rng, sequences = np.random.default_rng(0), []
for _ in range(300):
    sequence = ["pull"]
    for _ in range(rng.integers(1, 4)):
        sequence += ["edit"] * rng.integers(1, 3) + ["test"]
    sequences.append([*sequence, "commit", "push" if rng.random() < 0.7 else "amend", "<END>"])
X, y, _ = make_contexts(sequences, max_length=20)
pipeline = make_next_token_pipeline(max_iter=50).fit(X, y)

# %%
# Three sequences at each of three temperatures; 0 takes the most probable token.
for temperature in (0.0, 1.0, 2.0):
    written = generate(pipeline, [["pull"]] * 3, 12, temperature=temperature, random_state=0)
    for tokens in written.tolist():
        end = tokens.index("<END>") if "<END>" in tokens else len(tokens)
        print(temperature, " ".join(["pull", *tokens[:end]]))

# %%
# What 5,000 draws of one token give, beside the probabilities that the model states.
prompt = [["pull", "edit", "test"]]
stated = pipeline.predict_proba(prompt)[0]
fig, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
at, width = np.arange(len(stated)), 0.2
ax.bar(at - 1.5 * width, stated, width, color="black", label="stated probability")
for k, (temperature, color) in enumerate(
    zip((0.5, 1.0, 2.0), ("#0072B2", "#009E73", "#E69F00"), strict=True)
):
    drawn = generate(pipeline, prompt * 5000, 1, temperature=temperature, random_state=0)[:, 0]
    share = [np.mean(drawn == label) for label in pipeline.classes_]
    ax.bar(at + (k - 0.5) * width, share, width, color=color, label=f"drawn at {temperature}")
ax.set_xticks(at, pipeline.classes_)
ax.set(xlabel='next token after "pull edit test"', ylabel="share")
ax.set_title("Temperature 1 draws from the stated probabilities; below 1 sharper, above 1 flatter")
ax.legend(title="temperature")
plt.show()
