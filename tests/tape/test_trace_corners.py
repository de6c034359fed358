"""Corners of transforms inside traces."""

import numpy as np
import pytest

import nbgrad as ng


def test_a_buffer_written_through_a_view_can_be_differentiated_in_a_trace():
    def loss(x):
        y = ng.zeros(4, 3)
        y[:2] = x[:2]
        return (y * y).sum()

    x = ng.tensor(np.arange(12.0).reshape(4, 3))
    tangent = lambda x: ng.func.jvp(loss, (x,), (x,))[1]
    assert ng.trace(tangent)(x).replay(x).item() == tangent(x).item() == 2 * 55.0


@pytest.mark.parametrize("function", [ng.linalg.eigh, ng.linalg.svd])
def test_tangents_of_decompositions_keep_float32(function):
    x = ng.tensor(np.diag([3.0, 2.0, 1.0]).astype("float32"))
    _, tangents = ng.func.jvp(lambda x: tuple(function(x)), (x,), (x,))
    assert {t.dtype.name for t in tangents} == {"float32"}
