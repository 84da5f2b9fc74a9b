"""The second set: written later than the first, again without a look at thresholds or verdicts' code."""
