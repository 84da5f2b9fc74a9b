"""Thirty bugs as users post them in forums, each with its fixed twin."""

from evaluation.forum_bugs import networks, training

CASES = (*networks.CASES, *training.CASES)
SMALL = ("dropout_99", "softmax_over_the_batch", "shuffled_labels", "relu_on_logits", "layers_in_a_list")
