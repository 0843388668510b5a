"""From pictures to results: a network, its explainer, the device they run on."""
