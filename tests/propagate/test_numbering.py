"""What views of unit numbers tell without reading, against the numbers themselves."""

import pytest
import torch

from initscope.propagate.numbering import channels_cut, lines, numbers, of_rows, same_units, view_of, viewed
from initscope.propagate.totals import NotCovered

SHAPE = (3, 5, 12)


def heads():
    """A view of the numbers that are remembered now: other tests may have had them forgotten."""
    return numbers(SHAPE).view(3, 5, 4, 3).transpose(1, 2)


def test_numbers_and_views():
    found = heads()
    assert numbers(SHAPE)[2, 1, 7] == (2 * 5 + 1) * 12 + 7
    assert view_of(found, SHAPE) == ((3, 4, 5, 3), found.stride(), 0)
    assert view_of(found.clone(), SHAPE) is None
    assert same_units(found.transpose(1, 2).reshape(SHAPE), numbers(SHAPE), SHAPE)
    assert same_units(found.clone(), found, SHAPE)
    assert not same_units(found, found.flip(0), SHAPE)


@pytest.mark.parametrize("copied", [False, True])
def test_views_tell_what_copies_tell(copied):
    """Values, heads and whether channels are cut: by strides, or by reading."""
    source = heads().clone() if copied else heads()
    values = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))
    assert torch.equal(viewed(values, source, SHAPE), values.view(3, 5, 4, 3).transpose(1, 2))
    found = lines(source, SHAPE)
    assert torch.equal(found.token, torch.arange(5))
    assert torch.equal(found.sample, torch.arange(3)[:, None].expand(3, 4))
    assert torch.equal(found.channel[1], torch.arange(12).view(4, 3))
    assert channels_cut(source, SHAPE)
    folded = numbers(SHAPE).view(15, 12).clone() if copied else numbers(SHAPE).view(15, 12)
    assert torch.equal(of_rows(folded, SHAPE, 7), torch.arange(15 * 7).view(15, 7))


def test_mixed_units_are_refused():
    with pytest.raises(NotCovered, match="mixed"):
        lines(numbers(SHAPE).transpose(1, 2), SHAPE)
    with pytest.raises(NotCovered, match="mixes positions"):
        of_rows(numbers(SHAPE).transpose(1, 2), SHAPE, 7)
