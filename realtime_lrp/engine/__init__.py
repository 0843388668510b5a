"""From pictures to results: a network, its explainer and the device they run on."""
