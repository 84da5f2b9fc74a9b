"""Networks that no threshold was chosen on: written as practitioners write them, without a look at the zoo.

`HEALTHY` holds networks that train (``python held_out train`` shows it), `FAULTS` ones with a bug in them.
"""

from held_out import bugs_too, generative, images, images_too, others, sequences, sounds, tables  # noqa: F401
from held_out.bugs import FAULTS
from held_out.members import HEALTHY

__all__ = ["FAULTS", "HEALTHY"]
