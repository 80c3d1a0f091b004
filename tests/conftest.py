"""Environment that has to be set before anything imports SciPy."""

import os

# SciPy reads it once, on import; without it scikit-learn skips its array API checks.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
