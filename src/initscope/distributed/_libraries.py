"""The server that forks the processes of a sweep imports this module, so that no process has to load torch again."""

import initscope.measurement
import initscope.propagate
from initscope._utils.compiled import loops

# Packages load lazily: import what runs need, so that it is loaded here.
LOADED = (
    initscope.measurement.measure,
    initscope.propagate.predict,
    loops("initscope.theory._fused", pays=True),
)
