"""Results of pictures: a network, its explainer and the device they run on."""
