"""NumPy and the strict library everywhere; torch and CuPy where they are installed."""

from importlib.util import find_spec

import array_api_strict

BACKENDS = {"numpy": "numpy", "strict": array_api_strict} | {
    name: name for name in ("torch", "cupy") if find_spec(name) is not None
}
