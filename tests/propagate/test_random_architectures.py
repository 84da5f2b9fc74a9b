"""Random architectures, built from the list of rules: what is predicted is what networks do, or the status says not."""

import architectures
import hypothesis
import pytest
from hypothesis import strategies as st


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@hypothesis.settings(
    max_examples=4, phases=[hypothesis.Phase.generate], suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(st.data())
def test_predictions_agree_with_simulations(data):
    """At 5 standard errors. ``benchmarks/random_architectures.py`` takes hundreds and prints the coverage."""
    steps = architectures.describe(lambda choices: data.draw(st.sampled_from(choices)))
    verdict = architectures.judge(steps)
    assert verdict.deviation < 5, (steps, verdict)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_check_bites():
    """Cosines that are off by .03 are seen."""
    steps = [("flatten",), ("linear", False), ("activation", "relu"), ("linear", True)]
    assert architectures.judge(steps).deviation < 5
    assert architectures.judge(steps, breaking=0.03).deviation > 5
