"""Stated errors are right from both sides: neither too small nor too large."""

import calibrated_networks
import calibrated_samples
import calibration
import pytest

SETTINGS = [*calibrated_networks.SETTINGS, *calibrated_samples.SETTINGS]

LIMIT = 1.3
"""The least factor by which errors of a setting must be off to be called wrong."""
SEEN = 1.6
"""The factor that every setting is sure to show, in either direction."""


def wrong(spread, limit=LIMIT):
    return not 1 / limit < spread.value < limit


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: f"{setting.quantity}, {setting.where}")
def test_errors_are_what_estimates_vary_by(setting):
    """The spread of deviations in units of their stated errors is 1 within a factor of 1.3; the seeds are fixed.

    Errors that are 1.6 times too large, or too small, are seen in every setting: the test tries both.
    """
    estimates, errors = calibration.runs_of(setting, setting.few)
    truth = None if setting.truth is None else setting.truth()
    spread = calibration.spread_of(estimates, errors, truth)
    assert not wrong(spread), spread
    for factor in (SEEN, 1 / SEEN):
        assert wrong(calibration.spread_of(estimates, factor * errors, truth)), factor
