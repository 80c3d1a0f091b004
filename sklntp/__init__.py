"""Next-token prediction with a one-layer transformer whose training provably converges."""

from sklntp import datasets, inspection, metrics, model_selection, preprocessing, structure
from sklntp._classifier import NTPTransformerClassifier
from sklntp._generation import generate
from sklntp._recipe import make_next_token_pipeline
from sklntp._version import __version__

__all__ = [
    "NTPTransformerClassifier",
    "__version__",
    "datasets",
    "generate",
    "inspection",
    "make_next_token_pipeline",
    "metrics",
    "model_selection",
    "preprocessing",
    "structure",
]
