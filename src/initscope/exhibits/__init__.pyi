# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from . import (
    angle_distortion as angle_distortion,
)
from . import (
    attention_collapse as attention_collapse,
)
from . import (
    attention_errors as attention_errors,
)
from . import (
    backward_norms as backward_norms,
)
from . import (
    barron_rate as barron_rate,
)
from . import (
    binary_images as binary_images,
)
from . import (
    bound_tightness as bound_tightness,
)
from . import (
    boundary_picture as boundary_picture,
)
from . import (
    channel_angles as channel_angles,
)
from . import (
    class_boundaries as class_boundaries,
)
from . import (
    collapse_remedies as collapse_remedies,
)
from . import (
    collision_search as collision_search,
)
from . import (
    compressed_discrimination as compressed_discrimination,
)
from . import (
    compressed_tomography as compressed_tomography,
)
from . import (
    cosine_scatter as cosine_scatter,
)
from . import (
    deep_injectivity as deep_injectivity,
)
from . import (
    energy_curves as energy_curves,
)
from . import (
    euler_surrogate as euler_surrogate,
)
from . import (
    extremal_images as extremal_images,
)
from . import (
    filter_averages as filter_averages,
)
from . import (
    flat_patches as flat_patches,
)
from . import (
    ground_states as ground_states,
)
from . import (
    hashing_table as hashing_table,
)
from . import (
    image_invariances as image_invariances,
)
from . import (
    independence as independence,
)
from . import (
    initializations as initializations,
)
from . import (
    injective_share as injective_share,
)
from . import (
    inside_trained as inside_trained,
)
from . import (
    inverted_pictures as inverted_pictures,
)
from . import (
    label_needs as label_needs,
)
from . import (
    layer_theorem as layer_theorem,
)
from . import (
    norm_failures as norm_failures,
)
from . import (
    norm_preservation as norm_preservation,
)
from . import (
    overlap_function as overlap_function,
)
from . import (
    packing_bound as packing_bound,
)
from . import (
    photographs as photographs,
)
from . import (
    ranked_pictures as ranked_pictures,
)
from . import (
    recovery_depth as recovery_depth,
)
from . import (
    recovery_rate as recovery_rate,
)
from . import (
    region_counts as region_counts,
)
from . import (
    resolution as resolution,
)
from . import (
    saturation as saturation,
)
from . import (
    set_widths as set_widths,
)
from . import (
    shift_invariance as shift_invariance,
)
from . import (
    sign_exponent as sign_exponent,
)
from . import (
    sign_isometry as sign_isometry,
)
from . import (
    slope_causes as slope_causes,
)
from . import (
    sparse_recovery as sparse_recovery,
)
from . import (
    stability_curve as stability_curve,
)
from . import (
    subspace_norms as subspace_norms,
)
from . import (
    tessellation as tessellation,
)
from . import (
    threshold_line as threshold_line,
)
from . import (
    trained_networks as trained_networks,
)
from . import (
    training_role as training_role,
)
from . import (
    training_subsets as training_subsets,
)
from . import (
    verdict_study as verdict_study,
)
from . import (
    width_variation as width_variation,
)
from .gallery import (
    Gallery as Gallery,
)
from .gallery import (
    Shown as Shown,
)
from .gallery import (
    reproduce as reproduce,
)
from .protocol import (
    Declared as Declared,
)
from .protocol import (
    Exhibit as Exhibit,
)
from .protocol import (
    Number as Number,
)
from .registry import (
    all_exhibits as all_exhibits,
)
from .registry import (
    get as get,
)
