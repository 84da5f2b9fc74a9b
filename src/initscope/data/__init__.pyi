# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .arrays import (
    load_array as load_array,
)
from .checks import (
    check_images as check_images,
    check_pairs as check_pairs,
)
from .folders import (
    file_names as file_names,
    load_folder as load_folder,
)
from .gist_descriptor import (
    gist as gist,
    mirrored_gist as mirrored_gist,
)
from .image_set import (
    ImageSet as ImageSet,
)
from .named import (
    names as names,
)
from .normalization import (
    normalize as normalize,
)
from .overviews import (
    Overview as Overview,
    overview as overview,
)
from .pairs import (
    Pairs as Pairs,
    Triplets as Triplets,
    between_class_pairs as between_class_pairs,
    gaussian_pairs as gaussian_pairs,
    random_pairs as random_pairs,
    random_triplets as random_triplets,
    within_class_pairs as within_class_pairs,
)
from .sources import (
    load as load,
)
from .text import (
    text_pairs as text_pairs,
    text_set as text_set,
    text_tokens as text_tokens,
)
