"""Loaded by the server that processes of a sweep are forked from: so that each of them need not load torch again."""

import initscope.measurement
import initscope.propagate
from initscope._utils.compiled import loops

# Lazy rooms: name what runs need, so that it is loaded here.
LOADED = (
    initscope.measurement.measure,
    initscope.propagate.predict,
    loops("initscope.theory._fused", pays=True),
)
