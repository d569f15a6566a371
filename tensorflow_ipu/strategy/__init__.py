"""What an `IPUStrategy` is made of."""
