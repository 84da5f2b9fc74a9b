"""Benchmarks find the modules beside them, however they are imported."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
