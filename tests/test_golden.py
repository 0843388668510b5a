"""Golden outcomes of the embedded network: what every composite and method gave when last checked.

`python assets/make/make_assets.py golden` writes them anew, `--only NAME` one of them.
"""

import json

import golden
import numpy as np
import pytest

from realtime_lrp import COMPOSITES, METHODS

GOLDEN = json.loads(golden.GOLDEN.read_text())


@pytest.fixture(scope="module")
def outcomes():
    return golden.measured()


def test_the_scores_are_golden(outcomes):
    """The same classes with the same scores."""
    assert outcomes["classes"] == GOLDEN["classes"]
    np.testing.assert_allclose(outcomes["scores"], GOLDEN["scores"], atol=1e-4)


@pytest.mark.parametrize("name", [*COMPOSITES, *METHODS])
def test_every_map_is_golden(name, outcomes):
    """Its magnitude and distribution over the picture, tolerant of other processors' float32."""
    now, then = outcomes["maps"][name], GOLDEN["maps"][name]
    np.testing.assert_allclose(now["magnitude"], then["magnitude"], rtol=0.01)
    np.testing.assert_allclose(now["cells"], then["cells"], atol=0.002)
