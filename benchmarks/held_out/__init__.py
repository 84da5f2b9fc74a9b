"""Networks that no threshold was chosen on: written as practitioners write them, without a look at the zoo.

`HEALTHY` holds networks that train (``python held_out train`` shows it), `FAULTS` ones with a bug in them. The second
and the third part were written later, one after the other, again without a look at the code of the verdicts.
"""

from held_out import bugs_too, generative, images, images_too, others, sequences, sounds, tables  # noqa: F401
from held_out.bugs import FAULTS
from held_out.members import HEALTHY
from held_out.second import (  # noqa: F401
    generation,
    mistakes,
    mistakes_three,
    mistakes_too,
    rows,
    science,
    series,
    text,
    vision,
    vision_too,
)
from held_out.third import (  # noqa: F401
    acting,
    hearing,
    language,
    making,
    mistakes as mistakes_four,
    mistakes_too as mistakes_five,
    seeing,
)

__all__ = ["FAULTS", "HEALTHY"]
