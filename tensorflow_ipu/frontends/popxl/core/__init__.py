"""The graph IR: kinds of ops, ops, shapes and views, without TensorFlow graphs."""
