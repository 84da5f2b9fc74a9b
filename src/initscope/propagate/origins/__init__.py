r"""Origins: how covariances between positions follow from earlier values, and how gradients pass back to them.

All but `GatheredPositions` are elementwise or linear, and act on an offset's maps and on whole Gram matrices (`EVERY`)
alike. For gradients :math:`\delta = \partial\ell/\partial h` of wide random networks, earlier ops depend only on the
Gram matrix over positions, :math:`\Delta_{pp'} = E\sum_c\delta_{pc}\delta_{p'c}` summed over the channels of a block
([Schoenholz2017]_: backward weights count as independent of forward weights). Every op acts on it by the transpose of
its action on covariances: weights by :math:`\sigma_w^2`, summed over the taps; activations by
:math:`E\,\sigma'(X)\sigma'(Y)`; attention by its drawn heads. Gradients after an activation of units that are not
Gaussian are known for single channels, ``[count, 2·pairs, blocks, P, P]``, until the next weights average over them.
"""
