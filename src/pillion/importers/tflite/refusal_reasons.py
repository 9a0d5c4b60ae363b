# SPDX-License-Identifier: Apache-2.0
"""The reasons why TFLite operators are refused: LiteRT's support, and an alternative."""

from __future__ import annotations

from collections.abc import Mapping

_IN_FLOAT = "LiteRT has it in float only"
_WHOLE = "LiteRT has it for float32 and int32 only"
_UNREGISTERED = "LiteRT's reference kernels lack it"
_FLOW = "what is computed does not depend on data: unroll loops"
_UNKNOWN_SIZE = "how large the result is depends on data"
_WORDS = "it looks up words or hashes: numbers of words are inputs here"
_RANDOM = "it draws random numbers: two runs would differ"
_BY_PARTS = "LiteRT has it for float32 and whole numbers only"
_REMEMBERS = "LiteRT has it with float32 activations only (weights may be int8: hybrid)"
_COMPLEX = "LiteRT has it for float32 and complex numbers only"
_NO_KERNEL = "LiteRT has no kernel for it"

REASONS: Mapping[str, str] = {
    "POW": f"{_WHOLE}: powers of whole numbers are products here",
    **dict.fromkeys(("FLOOR", "SIN", "COS", "SQUARE", "ATAN2"), _IN_FLOAT),
    **dict.fromkeys(
        ("LOCAL_RESPONSE_NORMALIZATION", "L2_POOL_2D", "CONV_3D", "CONV_3D_TRANSPOSE"), _IN_FLOAT
    ),
    **dict.fromkeys(("CEIL", "ROUND", "SEGMENT_SUM"), _UNREGISTERED),
    **dict.fromkeys(("IF", "CALL"), _FLOW),
    **dict.fromkeys(("WHERE", "UNIQUE", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"), _UNKNOWN_SIZE),
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"), _WORDS),
    **dict.fromkeys(("HASHTABLE_LOOKUP", "LSH_PROJECTION", "SKIP_GRAM", "EMBEDDING_LOOKUP_SPARSE"), _WORDS),
    **dict.fromkeys(("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "MULTINOMIAL"), _RANDOM),
    **dict.fromkeys(("UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD"), _BY_PARTS),
    **dict.fromkeys(("UNSORTED_SEGMENT_SUM", "BUCKETIZE"), _BY_PARTS),
    **dict.fromkeys(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN"), _REMEMBERS),
    "BIDIRECTIONAL_SEQUENCE_LSTM": f"{_REMEMBERS}: convert two layers, one of them with go_backwards=True",
    **dict.fromkeys(("RFFT2D", "REAL", "IMAG", "COMPLEX_ABS"), _COMPLEX),
    "CONCAT_EMBEDDINGS": _NO_KERNEL,
    "MATRIX_DIAG": "Pillion has no op for it: multiply by a constant mask (tf.eye)",
    "MATRIX_SET_DIAG": "Pillion has no op for it: tf.where with a constant mask is read",
    "SPARSE_TO_DENSE": "Pillion has no op for it: tf.scatter_nd at known places is read",
    "BITCAST": "it shows the bytes of a tensor as another type",
    "DENSIFY": "LiteRT has it for sparse float weights: convert without optimizations = [EXPERIMENTAL_SPARSITY]",
    "FAKE_QUANT": "it is for training: convert with full integer quantization, which takes its ranges",
    "LSTM": "a single step of float32 or uint8: convert with TensorFlow 2",
    "CUSTOM": "but for those in this list",
    "DILATE": "converters write it for StableHLO only",
    "REDUCE_WINDOW": "converters write it for StableHLO only",
}
"""Reasons by operator name; `file_diagnosis` covers all StableHLO operators."""
