# Names of the package for type checkers and editors; lazy_loader reads them from here too.
from .agh import (
    AGH as AGH,
)
from .codes import (
    hamming_distance as hamming_distance,
    pack_bits as pack_bits,
    unpack_bits as unpack_bits,
)
from .conv_features import (
    ConvFeatures as ConvFeatures,
)
from .cosine_distortion import (
    CosineDistortion as CosineDistortion,
)
from .diff_hash import (
    DiffHash as DiffHash,
)
from .distortion import (
    HammingDistortion as HammingDistortion,
    hamming_bound as hamming_bound,
)
from .evaluation import (
    Evaluation as Evaluation,
    Neighbors as Neighbors,
    evaluate_among_others as evaluate_among_others,
    evaluate_retrieval as evaluate_retrieval,
)
from .index import (
    HammingIndex as HammingIndex,
)
from .itq import (
    ITQ as ITQ,
)
from .ksh import (
    KSH as KSH,
)
from .learned_hash import (
    LearnedHash as LearnedHash,
)
from .metrics import (
    MeanAveragePrecision as MeanAveragePrecision,
    PrecisionRecall as PrecisionRecall,
    mean_average_precision as mean_average_precision,
    precision_recall as precision_recall,
)
from .network_kernel import (
    NetworkKernel as NetworkKernel,
)
from .persistence import (
    load_hasher as load_hasher,
    save_hasher as save_hasher,
)
from .radius import (
    Matches as Matches,
    within_radius as within_radius,
)
from .recall import (
    CandidateRecall as CandidateRecall,
)
from .relu_features import (
    ReLUFeatures as ReLUFeatures,
)
from .reranking import (
    rerank as rerank,
)
from .searcher import (
    Searcher as Searcher,
)
from .sign_hash import (
    SignHash as SignHash,
)
from .ssh import (
    SSH as SSH,
)
