"""Real bugs of StackOverflow and GitHub (the list of DeepFD), ported to PyTorch with their fixed versions."""

from evaluation.real_bugs import classification, optimization, regression

CASES = (*classification.CASES, *regression.CASES, *optimization.CASES)
SMALL = ("06_38648195", "13_48934338", "15_59325381", "20_48221692", "25_47352366")
