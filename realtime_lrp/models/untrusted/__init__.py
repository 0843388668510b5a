"""Files of networks that strangers made: looked through before Keras builds anything of them."""
