"""Use it: random and learned embeddings as scikit-learn estimators, Hamming search, retrieval metrics.

Start with `SignHash` (random, law known exactly), `LearnedHash` (trained on labels or pairs) and `HammingIndex`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "agh": ["AGH"],
        "codes": ["hamming_distance", "pack_bits", "unpack_bits"],
        "conv_features": ["ConvFeatures"],
        "cosine_distortion": ["CosineDistortion"],
        "diff_hash": ["DiffHash"],
        "distortion": ["HammingDistortion", "hamming_bound"],
        "evaluation": ["Evaluation", "Neighbours", "evaluate_among_others", "evaluate_retrieval"],
        "index": ["HammingIndex"],
        "itq": ["ITQ"],
        "ksh": ["KSH"],
        "learned_hash": ["LearnedHash"],
        "metrics": ["MeanAveragePrecision", "PrecisionRecall", "mean_average_precision", "precision_recall"],
        "network_kernel": ["NetworkKernel"],
        "persistence": ["load_hasher", "save_hasher"],
        "relu_features": ["ReLUFeatures"],
        "reranking": ["rerank"],
        "sign_hash": ["SignHash"],
        "ssh": ["SSH"],
    },
)
