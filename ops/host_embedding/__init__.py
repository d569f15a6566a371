"""Tables that stay on the host, while the device looks up rows and trains them."""
